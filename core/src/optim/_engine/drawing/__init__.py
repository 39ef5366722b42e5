"""Drawings as SVG: what plots of reports and of the command line are made of, and graphs."""
