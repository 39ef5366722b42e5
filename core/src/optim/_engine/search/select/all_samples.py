"""What leads a ranking and holds on all samples: it is known before any of them has a lane in the last race.

Candidates are explored on few samples. One whose drift is near the budget there may break it on all of them; a race of
it would be time lost, and what comes next would have none. So it is compared first, without a clock, and so is what
comes next, until something holds. What is worth a lane beside what leads is found here, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from optim._engine.gate.budget import Budget
from optim._engine.search.deadline import Deadline
from optim._engine.search.journal import Journal
from optim._engine.search.measure.clock import Clock
from optim._engine.search.scoreboard import Scoreboard
from optim._engine.search.select.archive import ParetoArchive
from optim._engine.search.select.repair import Repairer
from optim._engine.search.state import Attempt, Candidate, Measured, StepStatus
from optim._engine.search.taste import SAME_SPEED, TOO_LITTLE
from optim._engine.search.workbench import Workbench

_NOT_PROVEN = "the run ended before the final check of it; give more with --search-seconds"

SAME = 1 + SAME_SPEED
"""Within one per cent the shorter chain is taken, and nothing is repaired."""

_SURE = 0.5
"""Share of the budget that needs no look: from few samples to all of them drift grew by up to 1.7 times (BERT-base in 8
bits: .026 to .044)."""

_TAIL = 8.0
"""The drift of all samples is ``g`` times that of few, or more, with a chance of ``g ** -8``: 1.1 times in one of two,
1.3 times in one of eight. Of eight candidates of five models six had 1.00 to 1.08, one 1.3, a BERT-base 1.7."""


class AllSamples:
    """Compares candidates on all samples ahead of the last race, and repairs what breaks the budget there.

    Args:
        bench: of the run.
        journal: has their rows.
        archive: has their points.
        clock: of the last races; its board learns what was found.
        time: of the search.
    """

    def __init__(
        self, bench: Workbench, journal: Journal, archive: ParetoArchive, clock: Clock, time: Deadline
    ) -> None:
        self._bench = bench
        self._journal = journal
        self._archive = archive
        self._clock = clock
        self._board = clock.board
        self._time = time
        self._repairer = Repairer(bench, journal, clock.board, time)

    def leading(self, ranked: Sequence[Candidate], promised: Callable[[Candidate], float]) -> list[Candidate]:
        """Returns candidates without those that were found to be wrong, the best of these repaired.

        The best is compared, then what comes next, until one holds or only the last race fits into the time.

        Args:
            ranked: the best first.
            promised: what was explored of one, as what is made small.
        """
        broken: list[Candidate] = []
        best = math.inf
        for candidate in ranked:
            if self._board.is_wrong(candidate):
                continue
            held = self.holds(candidate)
            if held is not False:
                best = promised(candidate) if held else math.inf
                break
            broken.append(candidate)
        left = [one for one in ranked if one not in broken and not self._board.is_wrong(one)]
        repaired = self.repaired(broken, promised, best)
        return left if repaired is None or self.holds(repaired) is False else [repaired, *left]

    def holds(self, candidate: Candidate) -> bool | None:
        """Whether a candidate is right on all samples; None where there is no time to tell."""
        if self._is_sure(candidate):
            return True
        within_s = self._seconds
        if within_s <= 0:
            return None
        found = self._clock.compare_ahead(candidate, within_s)
        note_objections(self._journal, self._archive, self._board, [candidate])
        return found

    @property
    def _seconds(self) -> float:
        """Seconds for a model that is compared ahead of the last race of two models; 0 where they are too few."""
        time = self._time
        left_s = time.before_last_race
        return min(time.timeout_s, left_s) if time.lanes.lane_s + time.comparing_s <= left_s else 0.0

    def repaired(
        self, candidates: Iterable[Candidate], promised: Callable[[Candidate], float], best: float
    ) -> Candidate | None:
        """Repairs the best of those that break the budget on all samples, where nothing that holds is as fast.

        Args:
            candidates: that were compared.
            promised: what was explored of one, as what is made small.
            best: what holds, in the same figures; infinite where nothing does.
        """
        for candidate in sorted(filter(self._may_be_repaired, candidates), key=promised):
            if promised(candidate) * SAME >= best:
                break
            self._bench.say("the best is beyond the budget on all samples: repairing it")
            found = self.repair(candidate)
            if found is not None:
                return found
        return None

    def repair(self, candidate: Candidate) -> Candidate | None:
        """Repairs a candidate that breaks the budget on all samples; None where that is not what it does."""
        broken = self._board[candidate].broken
        return self._repairer.on_all_samples(broken) if broken and self._may_be_repaired(candidate) else None

    def _may_be_repaired(self, candidate: Candidate) -> bool:
        """Whether samples of the run showed it to be beyond the budget: a repair measures on those, not on a source."""
        score = self._board[candidate]
        return score.broken is not None and not score.source_objection

    def _is_sure(self, candidate: Candidate) -> bool:
        """Whether it takes little of the budget, or was explored on all that it is held to."""
        if not candidate.is_lossy or self._bench.budget.excess(candidate.drift, candidate.task) <= _SURE:
            return True
        prepared = self._bench.prepared
        return prepared.task is None and set(prepared.compared) <= set(prepared.explored)


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
    alike = [one for one in others if is_alike(one.candidate, chosen[0].candidate)]
    best = max(alike, key=lambda one: expected_gain([*chosen, one]), default=None)
    if best is None or expected_gain([*chosen, best]) - expected_gain(chosen) < TOO_LITTLE:
        return []
    return [best.candidate]


def is_alike(one: Candidate, other: Candidate) -> bool:
    """Whether both take and give the same, so that they can be timed against one original."""
    return (one.recast is None) == (other.recast is None)
