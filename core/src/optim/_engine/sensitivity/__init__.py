"""Which nodes of a model a lossy pass does how much harm to: measured, for any pass of any plugin."""
