"""What lies behind a figure, node by node: a model is cut into its nodes, and these are replayed on given values."""
