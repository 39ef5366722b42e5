"""The conformance classes, a file each; authors import them from ``optim_testing``."""
