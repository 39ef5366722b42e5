"""Which nodes make a model differ from another."""
