"""Which steps go around a model: what a user may ask for, and the plan that it becomes."""
