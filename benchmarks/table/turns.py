"""Contenders timed in turns: each runs once a round, in a new order, so that what the machine does meets all alike."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping

import numpy as np


def in_turns(turns: Mapping[str, Callable[[], float]], *, rounds: int, seconds: float = 0.0) -> dict[str, list[float]]:
    """What each turn came to, round by round.

    Args:
        turns: of each contender; one returns its seconds.
        rounds: at least.
        seconds: further rounds begin until so many are over.
    """
    times: dict[str, list[float]] = {name: [] for name in turns}
    order, deadline, done = list(turns), time.perf_counter() + seconds, 0
    while order and (done < rounds or time.perf_counter() < deadline):
        random.shuffle(order)
        for name in order:
            times[name].append(turns[name]())
        done += 1
    return times


def ratio(times: list[float], base: list[float]) -> tuple[float, float, float]:
    """The median of the ratios round by round, and its 95 % bootstrap interval."""
    each = np.array(times) / np.array(base)
    picks = np.random.default_rng(0).integers(0, len(each), (1000, len(each)))
    low, high = np.percentile(np.median(each[picks], axis=1), [2.5, 97.5])
    return float(np.median(each)), float(low), float(high)
