"""Drift of outputs, distance of values inside a model, and a bound for further samples."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from optim._engine.gate.drift import OutputComparison
    from optim.arrays import Array, Outputs


def compare_output(name: str, original: Array, other: Array) -> OutputComparison:
    """Compares two arrays of one output.

    Args:
        name: name of the output, for the result.
        original: array of any shape, of numbers, booleans or texts.
        other: array to compare with the original.

    Returns:
        ``relative_error``: the drift, in units of how the elements of ``original`` vary; 1 is as bad as the best
            constant answer. A run of optim takes the unit from all its samples, so it may print another drift.
            ``max_abs``, ``cosine``, and ``problem``: the reason why the arrays cannot be compared, or empty.
    """
    from optim._engine.gate.outputs import compare_output as compare

    return compare(name, original, other)


def compare_outputs(
    samples: Iterable[tuple[Outputs, Outputs]], valid: Iterable[Mapping[str, Array]] = ()
) -> list[OutputComparison]:
    """Compares every output on every sample. The unit of an error is how the original varies over all samples.

    Args:
        samples: outputs of the original and of the other model, by name.
        valid: for each sample, positions of an output that count, broadcastable to the output; all positions by
            default.

    Returns:
        The worst comparison of each output over the samples. With several samples, ``each`` has the drift of every
            sample.
    """
    from optim._engine.gate.drift import merge_samples
    from optim._engine.gate.outputs import compare_sample, elements
    from optim._engine.gate.variation import measure_each

    masks = iter(valid)
    found = []
    for original, other in samples:
        counted = {name: mask.astype(bool) for name, mask in next(masks, {}).items()}
        found.append((elements(original), elements(other), counted))
    variations = measure_each((original, counted) for original, _, counted in found)
    merged: dict[str, OutputComparison] = {}
    for original, other, counted in found:
        merged = merge_samples(merged, compare_sample(original, other, {}, None, variations, counted))
    return list(merged.values())


def relative_distance(original: Array, other: Array) -> float:
    """Returns the distance of a value inside a model, ``||other - original|| / ||original||``.

    This distance is not a drift and decides no verdict. A drift says what an output is worth to a user, so its unit is
    how that output varies over all samples. The distance shows an error of a node beside rounding, so its unit is the
    size of the numbers. It is fast enough for thousands of nodes on each sample.

    Args:
        original: floats of any shape. Sentinels, as the gate finds them, do not count if ``other`` has the same ones.
        other: array of the same shape.

    Returns:
        The distance; infinite if NaN or infinities are at other places. Norms below 1e-6 count as 1e-6.
    """
    import numpy as np

    from optim._engine.gate.variation import power_of_two, sentinels_of

    a, b = (np.asarray(array).astype(np.float64).ravel() for array in (original, other))
    finite = np.isfinite(a)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True) or not np.isfinite(b[finite]).all():
        return math.inf
    counted = finite & (~np.isin(a, sentinels_of([(a, finite)])) | (a != b))
    a, b = a[counted], b[counted]
    unit = power_of_two(max(float(np.abs(one).max(initial=0.0)) for one in (a, b)))
    a, b = a / unit, b / unit
    gap, size = (math.sqrt(float(np.einsum("i,i->", one, one))) for one in (b - a, a))  # BLAS would wait for threads
    return gap / max(size, 1e-6 / unit * math.sqrt(max(1, a.size)))


def objection(comparisons: Iterable[OutputComparison], max_drift: float | None = None) -> str:
    """Says in one sentence why the other model does not compute the same; empty if it does.

    Args:
        comparisons: comparisons of every output.
        max_drift: largest allowed drift; None: rounding only. Texts and whole numbers must be equal.
    """
    from optim._engine.gate.budget import Budget
    from optim._engine.gate.drift import FLOOR

    return Budget(max_drift, FLOOR).objection(comparisons, lossy=max_drift is not None).text


def foresee(values: Sequence[float]) -> float:
    """Returns a bound for the value of one further sample, with 99 % probability if values are normal.

    Args:
        values: one value of each sample, in any unit.

    Returns:
        The upper end of a prediction interval in the same unit, and at least the greatest value. With fewer than four
            values, or with an infinite one, the greatest value. Source: Hahn and Meeker, Statistical Intervals, 1991,
            4.8.
    """
    from optim._engine.gate.drift import foresee as found

    return found(values)
