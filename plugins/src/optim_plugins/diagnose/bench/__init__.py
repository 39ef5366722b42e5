"""Times of models, beside each other."""
