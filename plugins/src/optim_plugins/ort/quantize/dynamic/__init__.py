"""``ort.quantize-dynamic``: activations are quantized while the model runs."""
