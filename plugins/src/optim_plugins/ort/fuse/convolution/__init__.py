"""``ort.fuse-convolution``: steps that convolutions can take in, and activations as one operator."""
