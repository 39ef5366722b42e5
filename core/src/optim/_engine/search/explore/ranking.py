"""The order of what a search found: by the goal, and by what is hoped for where something was not timed yet."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from optim._engine.search.board import Board
from optim._engine.search.explore.promise import Promises
from optim._engine.search.front import tie_of
from optim._engine.search.state import ITSELF, Measured
from optim._engine.search.taste import SURPRISE
from optim.goal import Basis
from optim.passes import Stage

_SAME_SIZE = 0.03
"""Sizes that differ by less go by the order in which passes offer them: more hides what is really smaller."""


class Ranking:
    """Ranks what one search found."""

    def __init__(self, board: Board) -> None:
        self._board, self._objective = board, board.objective
        self._original = Measured(board.original, ITSELF)

    def figure(self, item: Measured) -> float:
        """Returns what is made small."""
        figure = self._objective.figure(item)
        if self._objective.is_accuracy:
            return figure
        expected = self._board[item.candidate].hoped
        if expected is not None and (item.ratio is None or math.isinf(figure)):
            doubt = SURPRISE if self._objective.goal.basis is Basis.CLOCK and item.candidate.steps else 1.0
            return doubt * expected * self._objective.figure(self._original)
        return figure

    def of(self, items: Iterable[Measured]) -> list[Measured]:
        """Returns them, the best first: what may keep within the bounds before what breaks one."""
        return sorted(self._by_figure(list(items)), key=lambda item: self._objective.excess(item) > 0)

    def _by_figure(self, items: list[Measured]) -> list[Measured]:
        if self._objective.is_size and not self._board.target.timed:
            # what cannot be timed goes by size, and by the order in which passes offer it where that is about the same
            smallest = min((item.candidate.size_bytes for item in items), default=1)
            return sorted(items, key=lambda item: int((item.candidate.size_bytes / smallest - 1) / _SAME_SIZE))
        if self._objective.is_size:
            return sorted(items, key=lambda item: (self.figure(item), *tie_of(item)))
        return sorted(items, key=lambda item: (self.figure(item), len(item.candidate.steps)))

    def joined(self, items: Sequence[Measured], others: Iterable[Measured]) -> list[Measured]:
        """Returns them with those of others that are not among them, the best first."""
        there = {item.digest for item in items}
        more = {item.digest: item for item in others if item.digest not in there}
        return self.of([*items, *more.values()]) if more else list(items)

    def leading(
        self, ready: Sequence[Measured], most: int, promises: Promises | None = None, looked: Iterable[Measured] = ()
    ) -> list[Measured]:
        """Returns those that lead the next stage: what is best beneath a later one, then the best as it is.

        Attention with its projections taken in is the faster in floats, and none of these can be quantized. Where one
        is both, what may be best beneath for all that its interval says goes on beside it: on a busy machine a first
        look had a fusion at 1.07 [0.78, 1.12] that takes a tenth off 8 bits.

        Args:
            ready: what may go on, the best first.
            most: so many at most.
            promises: what later stages gain of fusions, where they go by latency.
            looked: at first: fusions of the original may be best beneath.
        """
        there = {item.digest for item in ready}
        fused = [item for item in looked if item.digest not in there and item.candidate.steps]
        fused = [item for item in fused if all(step.stage is Stage.FUSE for step in item.candidate.steps)]
        timed = [item for item in (*ready, *fused) if item.ratio is not None]
        if promises is None or not promises.later or not timed or not self._objective.is_latency:
            return list(ready[:most])
        first = min(timed, key=lambda item: promises.beneath(item.ratio or 1.0))
        timed.sort(key=lambda item: promises.beneath((item.lane.ratio and item.lane.ratio.low) or 1.0))
        order = {item.digest: item for item in (first, *ready[:1], *timed, *ready)}
        return list(order.values())[:most]

    def within_reach(self, items: Iterable[Measured]) -> list[Measured]:
        """Returns those that may lead the next stage: with a goal of long rounds none that is far behind the best.

        A single call may gain in one stage what it lost in another. An answer is hundreds of calls, and a candidate
        takes as long to make and time as many others. What has no figure may be anything.
        """
        items = list(items)
        if not self._objective.goal.long_rounds:
            return items
        figures = [self.figure(item) for item in items]
        furthest = SURPRISE * min(figures, default=math.inf)
        pairs = zip(items, figures, strict=True)
        return [item for item, figure in pairs if figure <= furthest or math.isinf(figure)]
