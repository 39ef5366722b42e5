"""A Python pipeline recorded while it runs, and its modules optimized in place: ``optim.record``."""
