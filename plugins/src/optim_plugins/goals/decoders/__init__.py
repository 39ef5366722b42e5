"""Decoders: which graphs are some, how they are driven token by token, and how long their answers take."""
