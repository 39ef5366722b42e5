"""``ort.fuse-transformer`` and its fusions."""
