"""Everything that was measured, as points: what the report's plot shows, and what ``--pick`` chooses from.

A point is *proven* when it was timed on fresh rounds and compared on all samples; only such a point is delivered. The
front is the proven points within the budget of which no other is at least as fast, as small and as accurate.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace

from optim._engine.search.state import Candidate, Measured, inaccuracy, unique
from optim._engine.search.taste import SAME


def worth_proving(held: Iterable[Measured], besides: Sequence[Candidate], most: int) -> list[Candidate]:
    """Returns candidates elsewhere on the front of what held: the smallest, the most accurate, then the fastest."""
    there = {candidate.digest for candidate in besides}
    timed = [item for item in held if item.ratio is not None]
    front = [item for item in _front(timed) if item.digest not in there]
    wishes = [
        min(front, key=lambda item: (item.candidate.size_bytes, item.ratio or 1.0), default=None),
        min(front, key=lambda item: (item.candidate.is_lossy, item.ratio or 1.0), default=None),
        *sorted(front, key=lambda item: item.ratio or 1.0),
    ]
    return unique(item.candidate for item in wishes if item is not None)[:most]


def points_of(points: Sequence[Measured], delivered: Candidate | None = None) -> list[Measured]:
    """Returns the proven points, numbered along the front; then what was only explored, the fastest first.

    What is delivered has a number, and what is faster than that by no more than noise has none.
    """
    proven = [point for point in points if point.proven and point.within]
    front = _front(proven)
    for ours in [point for point in proven if delivered and _place(point.candidate) == _place(delivered)]:
        front = [item for item in front if item is not ours and not _is_ahead_by_noise(item, ours)] + [ours]
    order = [_place(item.candidate) for item in sorted(front, key=speed)]
    numbered = [
        replace(point, number=order.index(place) + 1 if (place := _place(point.candidate)) in order else 0)
        for point in proven
    ]
    numbered.sort(key=lambda point: (not point.number, point.number, speed(point)))
    rest = [point for point in points if not (point.proven and point.within)]
    return numbered + sorted(rest, key=lambda point: (not point.proven, speed(point)))


def _place(candidate: Candidate) -> tuple[str, str]:
    """What tells points apart: one model on two targets is two."""
    return candidate.target, candidate.digest


def _front(items: Sequence[Measured]) -> list[Measured]:
    return [item for item in items if not any(beats(other, item) for other in items)]


def beats(one: Measured, other: Measured) -> bool:
    """Whether one is nowhere worse and somewhere clearly better; where both are the same, the shorter chain stays."""
    if one is other:
        return False
    if _is_clearly_less(speed(other), speed(one)) or _is_smaller_or_nearer(other, one):
        return False
    if _is_clearly_less(speed(one), speed(other)) or _is_smaller_or_nearer(one, other):
        return True
    return (len(one.candidate.steps), one.digest) < (len(other.candidate.steps), other.digest)


def unbeaten_beside_speed(items: Sequence[Measured]) -> list[Measured]:
    """Returns those that none of the others, which count as equally fast, beats in size and accuracy."""

    def beats_it(one: Measured, other: Measured) -> bool:
        return _is_smaller_or_nearer(one, other) and not _is_smaller_or_nearer(other, one)

    return [item for item in items if not any(beats_it(other, item) for other in items)] or list(items)


def _is_smaller_or_nearer(one: Measured, other: Measured) -> bool:
    """Whether it is clearly smaller than the other, or clearly more accurate."""
    sizes = one.candidate.size_bytes, other.candidate.size_bytes
    return _is_clearly_less(*sizes) or _is_clearly_less(inaccuracy(one), inaccuracy(other))


def _is_ahead_by_noise(one: Measured, delivered: Measured) -> bool:
    """Whether it beats what is delivered in speed alone, and intervals do not tell the two apart."""
    if not beats(one, delivered) or _is_smaller_or_nearer(one, delivered):
        return False
    ours, theirs = delivered.lane.ratio, one.lane.ratio
    return ours is None or theirs is None or ours.low <= theirs.high


def _is_clearly_less(one: float, other: float) -> bool:
    return one < other * (1 - SAME) if other > 0 else one < other


def tie_of(item: Measured) -> tuple[float, int, str]:
    """What decides between models of one size, the same in every run: how far off, how many changes, their names."""
    steps = [[step.pass_name, step.options] for step in item.candidate.steps]
    return inaccuracy(item), len(steps), json.dumps(steps, sort_keys=True, default=str)


def speed(item: Measured) -> float:
    """Returns the latency ratio; 1 if it was not timed."""
    return item.ratio if item.ratio is not None else 1.0
