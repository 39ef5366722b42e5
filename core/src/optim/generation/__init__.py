"""A small generation loop over exported decoders: to try a model and to verify one, not to serve it."""
