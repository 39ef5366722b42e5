"""``ort.quantize-past``: the past of a decoder in 8 or 4 bits."""
