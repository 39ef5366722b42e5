"""optim for Volt."""
