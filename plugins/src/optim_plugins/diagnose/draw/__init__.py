"""``optim draw``."""
