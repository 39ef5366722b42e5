"""``optim adapters``: files of adapters, made, looked at and checked."""
