"""Generators of right pairs: one model, written in two ways that differ by rounding or not at all."""

from gate.right import awkward, exact, other_sizes, rewritten  # noqa: F401 - importing a file registers its generators
