"""Programs that open a layout by its consumer; each file is run by its path in the consumer's Python, without optim."""
