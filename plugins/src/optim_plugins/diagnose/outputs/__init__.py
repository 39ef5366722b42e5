"""Stored outputs: what a model computed, written on one machine and compared with on another."""
