"""What is delivered though noise leaves its interval open: several looks agree, and there is nothing to lose by it.

A chain without loss needs medians that are better in two looks, each with processes of its own; or a median that is
better on fresh rounds, where processor seconds, which other programs cannot take away, show it clearly too: at load
11 a gain of 5 % had medians of 0.95 and 1.08 in two looks, and 0.90 of the processor seconds. One with loss needs two
looks and the processor seconds. These say nothing of a chain whose settings change how many threads wait or work, and
of what runs on another device.
"""

from __future__ import annotations

from collections.abc import Iterable

from optim._engine.search.measure.noise_watch import BUSY
from optim._engine.search.state import FASTER, Measured
from optim.target import Target

_LEANS = 0.98
"""Medians must be better than this in both looks: the same graph differs by about that much from process to process,
and what changes nothing would be delivered now and then with less."""

_OPEN = "undecided: other programs made its interval reach beyond 0.995"


def why_delivered(item: Measured, looked: float | None, target: Target) -> str:
    """Why a candidate is delivered that is not clearly faster; empty where it is not.

    Args:
        item: as it was proven.
        looked: its ratio when it was explored; it counts where there was no time for a second race.
        target: where it runs.
    """
    second = item.again if item.again is not None else looked
    if item.ratio is None or item.high is None or item.high < FASTER or not target.exact:
        return ""
    lossy, agree = item.candidate.is_lossy, second is not None and max(item.ratio, second) < _LEANS
    if agree and not lossy:
        return f"{_OPEN}; it is lossless and its median is better, so it is delivered"
    work = item.work
    if work is None or not takes_less_work(item, target) or not (agree if lossy else item.ratio < FASTER):
        return ""
    seconds = (
        f"a run takes {work.value:.2f} times the processor seconds (95 % interval {work.low:.2f} to {work.high:.2f})"
    )
    if not lossy:
        return f"{_OPEN}; it is lossless, its median is better and {seconds}, so it is delivered"
    return f"{_OPEN}; its median is better in two looks and {seconds}, so it is delivered"


def takes_less_work(item: Measured, target: Target) -> bool:
    """Whether a run of it clearly takes fewer processor seconds than the original's, where that tells of latency."""
    return _work_tells(item, target) and item.work is not None and item.work.high < FASTER


def of_least_work(best: Measured, others: Iterable[Measured], target: Target) -> Measured:
    """Returns what clearly takes fewer processor seconds than the best, where noise does not tell the two apart.

    Beside other programs two chains had 0.42 [0.31, 0.47] and 0.43 of the latency, and 0.39 and 0.36 of the work.

    Args:
        best: by its latency.
        others: that are better than the original too.
        target: where they run.
    """
    if best.disturbed <= BUSY or best.high is None or best.work is None or not _work_tells(best, target):
        return best
    found = best
    for item in others:
        is_open = item.low is not None and item.low <= best.high and _work_tells(item, target)
        if is_open and item.work is not None and found.work is not None and item.work.high < found.work.low:
            found = item
    return found


def _work_tells(item: Measured, target: Target) -> bool:
    """Whether processor seconds tell of latency: on processors, with as many threads as the original has."""
    settings = [step for step in item.candidate.steps if step.session_only and not step.lossy]
    return not settings and (target.provider == "CPUExecutionProvider" or target.device == "CPU")
