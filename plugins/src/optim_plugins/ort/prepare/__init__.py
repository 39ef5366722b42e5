"""Passes that make way for others and lose nothing."""
