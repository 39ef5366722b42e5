"""The plugin ``export``: from a source to verified graphs, and models by address."""
