"""Modules of torch as sources."""
