"""``ort.quantize-static``: ranges of activations are measured beforehand."""
