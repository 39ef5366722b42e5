"""``optim inspect``: what a model file is, who would run its nodes, and what is assumed of this machine."""
