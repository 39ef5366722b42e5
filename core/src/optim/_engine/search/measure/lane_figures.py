"""Figures of lanes: paired ratios with their intervals, the goal's own clock, single calls, and two races joined."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from optim._engine.goals.calls import Percentiles, Throughput, percentiles
from optim._engine.search.state import LaneResult
from optim.goal import Basis, Figure, Goal, Ratio


def goal_ratio(own: Sequence[Figure], base: Sequence[Figure], kept: Sequence[int]) -> Ratio | None:
    """What the goal's clock says, over rounds in which both were timed."""
    rounds = [r for r in kept if r < min(len(own), len(base))]
    return paired_ratio([own[r].seconds for r in rounds], [base[r].seconds for r in rounds]) if rounds else None


def sample_calls(calls: Sequence[Sequence[Sequence[float]]], kept: Sequence[int]) -> tuple[Percentiles, ...]:
    """How long calls took, of each timed sample; they are given in seconds, by round and sample."""
    rounds = [calls[r] for r in kept if r < len(calls)]
    samples = len(rounds[0]) if rounds else 0
    each = (percentiles(seconds for one in rounds for seconds in one[i]) for i in range(samples))
    return tuple(found for found in each if found is not None)


def throughput(figures: Sequence[Figure], counted: Sequence[Figure]) -> Throughput | None:
    """What a model did in the rounds that count, where its figures say how it was run."""
    served = next((figure.served for figure in figures if figure.served), None)
    calls = percentiles(seconds for figure in counted for seconds in figure.calls)
    if served is None or calls is None:
        return None
    return Throughput(served, 1 / float(np.median([figure.seconds for figure in counted])), calls)


def expected_of(goal: Goal, own: LaneResult, base: LaneResult) -> float | None:
    """What one look at calls lets expect of a goal's own clock, to the original's; None where it says nothing."""
    if goal.basis is not Basis.CLOCK or own.ratio is None:
        return None
    return goal.expected(own.ratio.value, _start_s(own), _start_s(base))


def _start_s(result: LaneResult) -> float | None:
    """From opening a model to its first answer, as its lane did before the race."""
    start = result.ready.start if result.ready is not None else None
    return start.open_s + sum(start.first_s[:1]) if start is not None else None


def joined(first: LaneResult, second: LaneResult) -> LaneResult:
    """One model's figures over two races, each in fresh processes; its peak of memory is the larger one."""
    if first.ratio is None or second.ratio is None or first.ready is None or second.ready is None:
        return first
    peak = max(first.ready.peak_memory_bytes, second.ready.peak_memory_bytes)
    ratio = joined_ratio(first.ratio, second.ratio)
    each = tuple(joined_ratio(a, b) for a, b in zip(first.sample_ratio, second.sample_ratio, strict=True))
    before = zip(first.sample_ms, first.sample_ratio, strict=True)
    return replace(
        first,
        ready=replace(first.ready, peak_memory_bytes=peak),
        ratio=ratio,
        latency_ms=first.latency_ms / first.ratio.value * ratio.value,
        latency_ci_ms=(
            min(first.latency_ci_ms[0], second.latency_ci_ms[0]),
            max(first.latency_ci_ms[1], second.latency_ci_ms[1]),
        ),
        sample_ms=tuple(ms / old.value * new.value for (ms, old), new in zip(before, each, strict=True)),
        sample_ratio=each,
        disturbed=max(first.disturbed, second.disturbed),
        goal=joined_ratio(first.goal, second.goal) if first.goal and second.goal else first.goal,
    )


def as_base(result: LaneResult) -> LaneResult:
    """The result of a lane that ran the base's own model: its ratio is 1 by definition."""
    if result.ratio is None:
        return result
    whole, *samples = (replace(ratio, value=1.0, low=1.0, high=1.0) for ratio in (result.ratio, *result.sample_ratio))
    goal = replace(result.goal, value=1.0, low=1.0, high=1.0) if result.goal else None
    return replace(result, ratio=whole, sample_ratio=tuple(samples), goal=goal)


_MOST_MISSED = 0.05
"""Share of cases in which the median may lie outside its interval: 1 - 95 %."""


def paired_ratio(candidate: Sequence[float], base: Sequence[float] | float = 1.0) -> Ratio:
    """Median of the ratios round by round, with :func:`median_interval`; to a base of 1 they are ratios already."""
    ratios = np.asarray(candidate, float) / np.asarray(base, float)
    low, high = median_interval(ratios)
    return Ratio(float(np.median(ratios)), low, high, len(ratios))


def joined_ratio(first: Ratio, second: Ratio) -> Ratio:
    """The ratio over two races in processes of their own: their geometric mean, and an interval that covers both.

    The interval of one race knows nothing of what differs between processes (memory layout, clock frequency); two
    intervals together do.
    """
    return Ratio(
        float(np.sqrt(first.value * second.value)),
        min(first.low, second.low),
        max(first.high, second.high),
        first.rounds + second.rounds,
    )


def median_interval(values: NDArray[np.float64]) -> tuple[float, float]:
    """95 % interval of the median, between two of the values; of fewer than six values the least and the greatest.

    The median lies below the ``k``-th least of ``n`` values if fewer than ``k`` of them lie below it: as often as ``n``
    throws of a coin have fewer than ``k`` heads, whatever the values scatter by. ``k`` is the largest with which both
    sides together miss the median in 5 % of cases at most (Conover, Practical Nonparametric Statistics: confidence
    intervals for a quantile). A bootstrap covers it in 87 to 94 % only: 1500 draws each of 6 to 40 values.
    """
    ordered, count = np.sort(values), len(values)
    place, heads = 0, 1.0  # ways to throw at most `place` heads
    while place + 1 < count / 2 and 2 * (more := heads + math.comb(count, place + 1)) / 2.0**count <= _MOST_MISSED:
        place, heads = place + 1, more
    return float(ordered[place]), float(ordered[count - 1 - place])
