"""A plan's steps put around a model."""
