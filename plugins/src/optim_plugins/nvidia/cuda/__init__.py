"""Passes of plugin ``cuda``."""
