"""The verdict of a run in one sentence that a person can act on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optim.gate.budget import Budget
from optim.reports.words import share_text

if TYPE_CHECKING:
    from optim.runs.outcome import Outcome
    from optim.search.nodes import Measured

_SAME = 0.005
"""Within half a per cent two figures are called the same."""


def verdict(outcome: Outcome) -> str:
    """One sentence: what was gained and at which price, or why nothing is delivered.

    E.g. ``2.3 times faster (ratio 0.43, 95 % interval 0.42 to 0.44), 1.5 times smaller, drift 0.15 within the budget
    of 0.17``.
    """
    result = outcome.result
    if result is None:
        return f"{outcome.reason}; nothing is delivered"
    if not result.node.steps:
        return f"{outcome.reason}; the original is delivered as it is" if outcome.reason else "the original, as it is"
    if result.node.recast is not None and result.ratio is not None:
        return f"{_with_recast(outcome, result)}, {_drift(outcome, result)}"
    parts = [_latency(result), _ran_on(outcome), _size(outcome.source.size_bytes, result.node.size_bytes)]
    if outcome.settings.goal == "size":
        parts = parts[::-1]
    return ", ".join([*filter(None, parts), _drift(outcome, result), *filter(None, [outcome.reason])])


def _with_recast(outcome: Outcome, result: Measured) -> str:
    """Its figures are against the original with the same steps: the original alone takes and gives something else."""
    size = _size(outcome.source.size_bytes, result.node.size_bytes)
    assert result.node.recast is not None
    return f"{_latency(result)}, against the original with {result.node.recast.pass_name}, {size}"


def times(factor: float) -> str:
    """A factor above 1 in as many digits as it deserves."""
    return f"{factor:.3g}" if factor < 1.1 else f"{factor:.2g}" if factor < 100 else f"{factor:.0f}"


def _latency(result: Measured) -> str:
    if result.ratio is None:
        return ""
    interval = "" if result.low is None or result.high is None else (
        f", 95 % interval {result.low:.2f} to {result.high:.2f}"
    )  # fmt: skip
    figures = f"(ratio {result.ratio:.2f}{interval})"
    inside_noise = result.low is not None and result.high is not None and result.low <= 1.0 <= result.high
    if inside_noise or abs(result.ratio - 1) < _SAME:
        return f"as fast as before {figures}"
    if result.ratio < 1:
        return f"{times(1 / result.ratio)} times faster {figures}"
    return f"{times(result.ratio)} times slower {figures}"


def _ran_on(outcome: Outcome) -> str:
    """Where a target that cannot be timed ran the nodes of the result."""
    ready = outcome.timing.ready if outcome.timing else None
    if outcome.target.timed or ready is None or not ready.executed_on:
        return ""
    share = share_text(ready.executed_on.get(outcome.target.provider, 0.0))
    return f"{share} of its nodes on {outcome.target.provider}"


def _size(before: int, after: int) -> str:
    if not before or not after or abs(after / before - 1) < _SAME:
        return "the same size"
    if after < before:
        return f"{times(before / after)} times smaller"
    return f"{times(after / before)} times larger"


def _drift(outcome: Outcome, result: Measured) -> str:
    lossless = outcome.settings.lossless
    budget = Budget(None if lossless else outcome.settings.max_drift, outcome.prepared.tolerance)
    drift = f"drift {result.node.drift.relative_l2:.2g}"
    if (result.node.is_lossy or not outcome.target.exact) and not lossless:
        return f"{drift} within the budget of {budget.limit(lossy=True):.2g}"
    return f"lossless: {drift}, rounding explains up to {budget.limit(lossy=False):.2g}"
