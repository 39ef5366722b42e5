"""A layout in each file."""
