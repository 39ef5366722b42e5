"""Chosen operators of a model on chosen kernels: ``optim swap``."""
