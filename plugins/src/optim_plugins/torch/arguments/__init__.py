"""A module's arguments as named tensors with named dimensions."""
