"""Intel Neural Compressor: a thin host; the library itself runs in an environment of its own."""
