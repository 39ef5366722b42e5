"""What the end of a search tells the report: who did not hold on all samples, and who was faster when explored only."""

from __future__ import annotations

from collections.abc import Sequence

from optim._engine.search.journal import Journal
from optim._engine.search.scoreboard import Scoreboard
from optim._engine.search.select.archive import ParetoArchive
from optim._engine.search.state import Attempt, Candidate, Measured, StepStatus

_NOT_PROVEN = "the run ended before the final check of it; give more with --search-seconds"


def note_no_faster(attempt: Attempt, item: Measured) -> None:
    """Notes that a candidate was faster when explored only: both figures belong into the report."""
    if item.timing is not None:
        explored = f", {attempt.ratio:.2f} when explored" if attempt.ratio is not None else ""
        interval, said = item.timing.interval, f"latency ratio {item.timing.value:.2f} in the final timing"
        said += f" (95 % interval {interval[0]:.2f} to {interval[1]:.2f})" if interval else f" ({item.rounds} of them)"
        attempt.settle(StepStatus.DROPPED, f"not clearly faster than the original: {said}{explored}")


def note_objections(
    journal: Journal, archive: ParetoArchive, board: Scoreboard, candidates: Sequence[Candidate]
) -> None:
    """Notes the candidates that do not hold on all samples, and those that there was no time to prove."""
    for candidate in candidates:
        score = board[candidate]
        attempt = journal.find(candidate)
        if score.out_of_time and attempt is not None and not score.objection:
            attempt.run_out(_NOT_PROVEN)
        if not score.objection:
            continue
        if attempt is not None:
            attempt.drop(score.objection, "" if score.source_objection else "on all samples: ")
        if score.broken is not None:
            archive.judged(score.broken, score.objection)
