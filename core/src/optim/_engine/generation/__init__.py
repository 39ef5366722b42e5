"""A small generation loop over exported decoders: to try, to verify and to time one, not to serve it."""
