"""The search of a decoder that is too large for its time: on its first layers, and what is found goes to the whole."""
