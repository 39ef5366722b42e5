"""What all samples said of candidates that were explored on few, and what is worth a lane beside the best."""

from __future__ import annotations

from collections.abc import Sequence

from optim._engine.gate.budget import Budget
from optim._engine.search.board import Board
from optim._engine.search.state import Attempt, Candidate, Measured, StepStatus

_NOT_PROVEN = "the run ended before the final check of it; give more with --search-seconds"

_SAFE = 0.75
"""Share of the budget. The drift of all samples was 1.00 to 1.08 times that of few for six of eight candidates of five
models, 1.3 for one, and 1.7 for a BERT-base."""


def note_no_faster(attempt: Attempt, item: Measured) -> None:
    """Notes that a candidate was faster when explored only: both figures belong into the report."""
    if item.timing is not None:
        explored = f", {attempt.ratio:.2f} when explored" if attempt.ratio is not None else ""
        interval, said = item.timing.interval, f"latency ratio {item.timing.value:.2f} in the final timing"
        said += f" (95 % interval {interval[0]:.2f} to {interval[1]:.2f})" if interval else f" ({item.rounds} of them)"
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
        if attempt is not None:
            attempt.drop(score.objection, "" if score.source_objection else "on all samples: ")
        if score.broken is not None:
            board.judged(score.broken, score.objection)


def is_safe(candidate: Candidate, budget: Budget) -> bool:
    """Whether a candidate that holds on few samples keeps so far from the budget that it will hold on all of them."""
    return not candidate.is_lossy or budget.excess(candidate.drift, candidate.task) <= _SAFE


def is_alike(one: Candidate, other: Candidate) -> bool:
    """Whether both take and give the same, so that they can be timed against one original."""
    return (one.recast is None) == (other.recast is None)
