"""The verb ``optim merge-decoders``: a decoder without and one with a past become one file."""
