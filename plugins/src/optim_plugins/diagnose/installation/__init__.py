"""``optim plugins doctor``, ``install`` and ``remove``: what is installed beside optim, and what is wrong with it."""
