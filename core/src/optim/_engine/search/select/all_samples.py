"""What all samples said of candidates that were explored on few, and what is worth a lane beside the best."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from optim._engine.gate.budget import Budget
from optim._engine.search.board import Board
from optim._engine.search.state import Attempt, Candidate, Measured, StepStatus
from optim._engine.search.taste import TOO_LITTLE

_NOT_PROVEN = "the run ended before the final check of it; give more with --search-seconds"

_TAIL = 8.0
"""The drift of all samples is ``g`` times that of few, or more, with a chance of ``g ** -8``: 1.1 times in one of two,
1.3 times in one of eight. Of eight candidates of five models six had 1.00 to 1.08, one 1.3, a BERT-base 1.7."""


def note_no_faster(attempt: Attempt, item: Measured) -> None:
    """Notes that a candidate was faster when explored only: both figures belong into the report."""
    if (found := item.lane.ratio) is not None:
        explored = f", {attempt.ratio:.2f} when explored" if attempt.ratio is not None else ""
        interval, said = found.interval, f"latency ratio {found.value:.2f} in the final timing"
        said += f" (95 % interval {interval[0]:.2f} to {interval[1]:.2f})" if interval else f" ({found.rounds} of them)"
        attempt.settle(StepStatus.DROPPED, f"not clearly faster than the original: {said}{explored}")


def note_objections(board: Board, candidates: Sequence[Candidate]) -> None:
    """Notes the candidates that do not hold on all samples, and those that there was no time to prove."""
    for candidate in candidates:
        score = board[candidate]
        attempt = board.find(candidate)
        if score.out_of_time and attempt is not None and not score.objection:
            attempt.run_out(_NOT_PROVEN)
        if not score.objection:
            continue
        for row in (attempt, _without_settings(board, candidate)):
            if row is not None:
                row.drop(score.objection, "" if score.source_objection else "on all samples: ")
        if score.broken is not None:
            board.judged(score.broken, score.objection)


def _without_settings(board: Board, candidate: Candidate) -> Attempt | None:
    """Returns the row of the same graph without settings, if that is wrong in sizes that no sample has.

    There no settings help. Else a report would say of a fast wrong graph that the final model is not better with it.
    """
    result = board[candidate].result
    unseen = result.ready.unseen if result is not None and result.ready is not None else ()
    steps = candidate.steps
    while steps and steps[-1].session_only and not steps[-1].lossy:
        steps = steps[:-1]
    return board.find_chain(steps) if board.budget.unseen_objection(unseen, candidate.is_lossy) else None


@dataclass(frozen=True, slots=True)
class Hope:
    """What may be delivered.

    Attributes:
        candidate: that is proven, or may be.
        gain: the logarithm of the factor by which it is expected to be better than the original.
        chance: that it holds on all samples, 0..1.
    """

    candidate: Candidate
    gain: float
    chance: float


def chance_of(candidate: Candidate, budget: Budget) -> float:
    """The chance that a candidate which holds on few samples holds on all of them, 0..1."""
    if not candidate.is_lossy:
        return 1.0
    excess = max(0.0, budget.excess(candidate.drift, candidate.task))
    return max(0.0, 1.0 - math.pow(excess, _TAIL))


def expected_gain(hopes: Iterable[Hope]) -> float:
    """The gain to expect of the best that holds; one graph holds under all settings or under none."""
    of_graph: dict[Path, Hope] = {}
    for hope in sorted(hopes, key=lambda hope: -hope.gain):
        of_graph.setdefault(hope.candidate.model.path, hope)
    expected, none_held = 0.0, 1.0
    for hope in of_graph.values():
        expected += none_held * hope.chance * max(0.0, hope.gain)
        none_held *= 1.0 - hope.chance
    return expected


def best_beside(chosen: Sequence[Hope], others: Iterable[Hope]) -> list[Candidate]:
    """Returns the one of ``others`` that raises the expected gain most; nothing where it is raised by less than 2 %.

    Without it a search whose best breaks the budget at its very end has nothing to deliver. What is safe and hardly
    faster than the original is no better beside it than what is likely to hold, and twice as fast.

    Args:
        chosen: what is to be proven.
        others: within the budget so far.
    """
    if not chosen:
        return []
    best = max(others, key=lambda one: expected_gain([*chosen, one]), default=None)
    if best is None or expected_gain([*chosen, best]) - expected_gain(chosen) < TOO_LITTLE:
        return []
    return [best.candidate]
