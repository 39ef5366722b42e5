"""Where the time of models goes, node by node."""
