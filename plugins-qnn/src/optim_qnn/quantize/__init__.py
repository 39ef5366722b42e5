"""``qnn.quantize``: integers with scales."""
