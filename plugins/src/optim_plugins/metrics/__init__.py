"""The plugin ``metrics``: task metrics for the usual tasks."""
