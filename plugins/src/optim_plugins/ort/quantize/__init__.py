"""Weights and activations as integers; what the ways to do it share."""
