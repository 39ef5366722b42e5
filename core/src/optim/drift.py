"""How far one output is from another, as the gate counts it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optim._engine.gate.drift import OutputComparison
    from optim.arrays import Array


def compare_output(name: str, original: Array, other: Array) -> OutputComparison:
    """Compare two arrays of one output.

    Args:
        name: of the output, for the record.
        original: any shape; numbers, booleans or texts.
        other: held against it.

    Returns:
        ``relative_l2`` (||other - original|| / ||original||, unitless), ``max_abs``, ``cosine``, and ``problem``: why
        there is no such figure, empty where there is one.
    """
    from optim._engine.gate.outputs import compare_output as compare

    return compare(name, original, other)
