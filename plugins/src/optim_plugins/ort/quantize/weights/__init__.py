"""``ort.quantize-weights``: weights in blocks of a few bits, activations in float."""
