"""What a lossy pass costs at each node of a model, and which nodes a repair leaves alone: nodes are replayed."""
