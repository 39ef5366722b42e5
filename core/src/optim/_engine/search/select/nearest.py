"""What is nearest to a budget that nothing keeps within: measured beside the original, and kept aside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from optim._engine.search.journal import Journal
from optim._engine.search.measure.clock import Clock
from optim._engine.search.measure.source_gate import SourceGate
from optim._engine.search.select.archive import ParetoArchive
from optim._engine.search.state import Candidate, LaneResult, Measured
from optim._engine.search.workbench import Workbench


class Nearest:
    """Measures models beyond the budget.

    Args:
        bench: of the run.
        journal: knows what first looks found of them.
        archive: keeps one of them aside.
        clock: times them.
        source: holds them against the module that was exported.
    """

    def __init__(
        self, bench: Workbench, journal: Journal, archive: ParetoArchive, clock: Clock, source: SourceGate
    ) -> None:
        self._timed = bench.target.timed
        self._journal = journal
        self._archive = archive
        self._clock = clock
        self._source = source

    def measure(self, candidates: Sequence[Candidate], helps: Callable[[Measured], bool]) -> Measured | None:
        """Measures candidates on all samples, and keeps one of them aside.

        Of what there is no time to measure, the figures of its first look stand.

        Args:
            candidates: the nearest to the budget first; they can be timed against one original.
            helps: whether one would be delivered with a larger budget.

        Returns:
            The first that would help, else the first; None where none of them runs.
        """
        found: list[tuple[Measured, LaneResult | None]] = []
        for candidate, result in zip(candidates, self._clock.beyond(candidates), strict=False):  # the nearest at least
            if result.ready is not None and (result.ratio is not None or not self._timed):
                found.append((Measured.of(candidate, result), result))
            elif result.out_of_time:
                found.append((self._looked_at(candidate), None))
        if not found:
            return None
        chosen, timing = next((one for one in found if helps(one[0])), found[0])
        self._source.objection(chosen.candidate)
        chosen = replace(chosen, source=self._clock.board[chosen.candidate].source)
        self._archive.aside(chosen, timing if self._timed else None)
        return chosen

    def _looked_at(self, candidate: Candidate) -> Measured:
        attempt = self._journal.find(candidate)
        if attempt is None:
            return Measured(candidate, None)
        return Measured(candidate, attempt.ratio, attempt.low, attempt.high, rounds=attempt.rounds)


def why_no_help(nearest: Measured | None, *, timed: bool) -> str:
    """Why a model beyond the budget would not be delivered with a larger budget either."""
    if nearest is None:
        return "does not run"
    names = " + ".join(step.pass_name for step in nearest.candidate.steps)
    if timed and nearest.ratio is None:
        return f"was not timed before the run ended: {names}"
    if nearest.ratio is None:
        return f"is not better either: {names}"
    figures = f"{names}, latency ratio {nearest.ratio:.2f}"
    if nearest.ratio >= 1:
        return f"is not better either: {figures}"
    span = f" [{nearest.low:.2f}, {nearest.high:.2f}]" if nearest.low is not None and nearest.high is not None else ""
    return f"is not proven to be better by the goal either: {figures}{span}"
