"""Adapters of a model: files of their weights, what fits which model, and sessions that run with them."""
