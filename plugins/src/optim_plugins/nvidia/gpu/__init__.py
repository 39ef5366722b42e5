"""The GPUs that are here, what they need, and models on them."""
