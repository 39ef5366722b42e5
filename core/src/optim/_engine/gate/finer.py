"""Gives nodes that a repair leaves alone a precision between the pass's and their own, as far as the budget allows.

A pass with an option ``finer`` has three precisions for a node. :func:`optim._engine.gate.repair.find_keep` decides
between two of them, the first and the last; here the nodes that it keeps are tried in the middle one: all at once, then
halves of what did not hold, those of most work first. :mod:`optim._engine.gate.mixed` does better where both precisions
were replayed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from optim._engine.gate.repair import OutOfEvaluations, Repair

_TRIES = 6
"""Each applies the pass and runs the model, as an evaluation of a repair does; four nodes are told apart by as many."""


def refine(
    repair: Repair,
    refinable: Collection[str],
    drift_of: Callable[[Sequence[str], Sequence[str]], float],
    limit: float,
    work: Mapping[str, float],
) -> Repair:
    """The same repair with fewer nodes kept, and the others in ``finer``.

    Args:
        repair: holds as it is.
        refinable: nodes that have a precision between.
        drift_of: measures the drift with nodes kept, and nodes in finer; may raise :class:`OutOfEvaluations`.
        limit: what the drift may be.
        work: how much each node computes, in any unit; unknown ones count as the average.
    """
    mean = sum(work.values()) / len(work) if work else 1.0
    names = sorted((name for name in repair.keep if name in refinable), key=lambda name: -work.get(name, mean))
    waiting, best = [names] if names else [], repair
    for _ in range(_TRIES):
        if not waiting:
            break
        group = waiting.pop(0)
        moved = {*best.finer, *group}
        keep = tuple(name for name in repair.keep if name not in moved)
        finer = tuple(name for name in repair.keep if name in moved)
        try:
            drift = drift_of(keep, finer)
        except OutOfEvaluations:
            break
        best = replace(best, evaluations=best.evaluations + 1)
        if drift <= limit:
            best = replace(best, keep=keep, finer=finer, drift=drift)
        elif len(group) > 1:
            waiting += [group[: len(group) // 2], group[len(group) // 2 :]]
    total = sum(work.get(name, mean) for name in repair.keep)
    left = sum(work.get(name, mean) for name in best.keep)
    moved_work = repair.work * (1 - left / total) if total else 0.0
    return replace(best, work=repair.work - moved_work, between=repair.between + moved_work)
