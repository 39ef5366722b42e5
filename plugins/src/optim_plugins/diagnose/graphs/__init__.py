"""Graphs opened up: their values, run, cut and paired with those of another model."""
