"""Writes the package of a new plugin, whole and passing its own tests."""
