"""Passes of plugin ``tensorrt``."""
