"""How much drift each node costs in another type."""
