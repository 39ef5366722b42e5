"""Passes that convert a model to a 16-bit type. Both types are called narrow."""
