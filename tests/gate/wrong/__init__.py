"""Generators of wrong pairs: two models that a user would call different."""

from gate.wrong import (  # noqa: F401 - importing a file registers its generators
    concentrated,
    decoys,
    discrete,
    held_out,
    ignored,
    moved,
    nonfinite,
    other_sizes,
    scales,
    sentinels,
    structure,
    units,
    unshown,
    wrong_formulas,
)
