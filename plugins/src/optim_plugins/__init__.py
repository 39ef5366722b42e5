"""The standard plugins of optim."""
