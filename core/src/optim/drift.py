"""How far one output is from another, as the gate counts it, and what a further sample is expected to show."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optim._engine.gate.drift import OutputComparison
    from optim.arrays import Array


def compare_output(name: str, original: Array, other: Array) -> OutputComparison:
    """Compare two arrays of one output.

    Args:
        name: of the output, for the record.
        original: any shape; numbers, booleans or texts.
        other: held against it.

    Returns:
        ``relative_error``: the drift, unitless, in units of how the elements of ``original`` vary; 1 is as bad as the
        best constant answer. A run of optim takes the unit from all its samples, so it may print another drift.
        ``max_abs``, ``cosine``, and ``problem``: why the arrays cannot be compared, empty if they can.
    """
    from optim._engine.gate.outputs import compare_output as compare

    return compare(name, original, other)


def foresee(values: Sequence[float]) -> float:
    """What one further sample's value stays below, with 99 % probability; never less than the greatest.

    Args:
        values: one of each sample, in any unit.

    Returns:
        The upper end of a prediction interval, in the same unit; the greatest where there are fewer than four, or one
        is infinite. Source: Hahn and Meeker, Statistical Intervals, 1991, 4.8.
    """
    from optim._engine.gate.drift import foresee as found

    return found(values)
