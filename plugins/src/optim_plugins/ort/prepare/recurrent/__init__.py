"""Recurrent cells that an exporter wrote out step by step."""
