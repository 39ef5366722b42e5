"""Measure: races against the original, and how far a candidate is from what it was made from."""
