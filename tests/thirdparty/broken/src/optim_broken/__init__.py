"""Plugins that break."""
