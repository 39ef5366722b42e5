"""The end of a search: the best candidates on fresh rounds and all samples, and the one that is delivered."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from optim._engine.gate.budget import Budget, Objection
from optim._engine.search.front import beats, speed, tie_of, unbeaten_beside_speed, worth_proving
from optim._engine.search.measure.clock import NOT_TIMED, SIZE_ALONE, Clock
from optim._engine.search.measure.source_gate import SourceGate
from optim._engine.search.rows import why_no_faster
from optim._engine.search.select.chains import Chains
from optim._engine.search.select.repair import Repairs
from optim._engine.search.state import ITSELF, Candidate, LaneResult, Measured, StepStatus, unique
from optim._engine.search.taste import DIFFER, FEW, SAME, SURPRISE, TOO_LITTLE
from optim.goal import Basis
from optim.passes import Role

_TAIL = 8.0
"""The drift of all samples is ``g`` times that of few, or more, with a chance of ``g ** -8``: 1.1 times in one of two,
1.3 times in one of eight. Of eight candidates of five models six had 1.00 to 1.08, one 1.3, a BERT-base 1.7."""


class Selection:
    """Selects the candidate that is delivered.

    Attributes:
        clock: of the search, whose races go on; its board says what held on all samples.
    """

    def __init__(self, clock: Clock, chains: Chains, source: SourceGate, repairs: Repairs | None = None) -> None:
        self.clock, self._races, self._board, self._time = clock, clock.races, clock.board, clock.time
        self._chains = chains
        self._source = source
        self._repairs = repairs
        self.objective = clock.board.objective
        self._proven: dict[str, Measured] = {}
        self._judged: list[Candidate] = []
        self._of_load: Measured | None = None

    def decide(self, ranking: Sequence[Measured]) -> Measured | None:
        """Returns the candidate to deliver, measured anew; None where nothing is better than the original.

        What looked best on few samples may break the budget on all of them, or be slower on fresh rounds: then what
        came next is measured, until something holds that nothing explored promises to beat.
        """
        finalists = [item.candidate for item in ranking if self._may_win(item)]
        if self.objective.is_size and self._board.target.timed:
            return self._smallest(finalists)
        if not finalists:  # what only a quick look knows
            finalists = [
                item.candidate for item in sorted(filter(self._may_win, self._board.held()), key=self.objective.figure)
            ]
        finalists = finalists[: self._time.lanes_at_the_end(FEW)]
        if not finalists:
            return None
        if self._board.target.timed and not self._time.may_prove:
            self._time.note(NOT_TIMED)
            return None
        asked = self._chains.only_what_was_asked_for(finalists[0])
        shorter = self._chains.without_doubtful(finalists[0])
        plain = [one for one in shorter if self._chains.only_set(finalists[0].steps[len(one.steps) :])]
        beside = self._beside(finalists, ranking)
        finalists = unique([finalists[0], *asked, *beside, *plain, *finalists[1:], *shorter])
        finalists = finalists[: max(1 + len(asked) + len(beside), self._time.lanes_at_the_end(len(finalists)))]
        measured = self._timed(ranking, finalists) if self._board.target.timed else self._first_right(finalists)
        while (chosen := self._choose(measured)) is not None:
            broken = self.objective.original_objection(self._board.original)
            if self.objective.goal.basis is not Basis.CALLS or broken:  # it need not be faster than the original
                break
            rest = self._chains.without_gains_of_load(chosen)
            if rest is None and not self._chains.changes_nothing(chosen.candidate):
                break
            self._of_load = self._of_load or (chosen if rest is not None else None)
            measured = [item for item in measured if item.digest != chosen.digest]
            self._board.dismiss(chosen.candidate)
            known = {self._board.original.digest, *(one.digest for one in finalists)}
            if rest is not None and rest.digest not in known and self._time.may_prove:
                measured += self._prove([rest])
        return chosen

    def _looks(self, ranking: Sequence[Measured]) -> dict[str, float]:
        """The explored figure of each model, by digest, in units of what is made small."""
        return {item.digest: self.objective.figure(item) for item in (*self._board.held(), *ranking)}

    def _beside(self, finalists: Sequence[Candidate], ranking: Sequence[Measured]) -> list[Candidate]:
        """Returns what is proven beside the finalists, since all samples may not allow what few did."""
        looks = self._looks(ranking)
        whole = self.objective.figure(Measured(self._board.original, ITSELF))
        if self.objective.is_accuracy:  # nothing is better than the original, and no gain tells what is worth a lane
            return []

        def hope(candidate: Candidate) -> Hope:
            look = looks.get(candidate.digest, math.inf)
            gain = math.log(whole / look) if 0 < look < math.inf else 0.0
            return Hope(candidate, gain, chance_of(candidate, self._board.budget))

        others = unique(item.candidate for item in (*self._board.held(), *ranking) if self._may_win(item))
        return best_beside([hope(one) for one in finalists], map(hope, others))

    def _smallest(self, ranked: Sequence[Candidate]) -> Measured | None:
        """Returns the smallest that is right on all samples, timed beside what came next where there is time for it."""
        ranked = [one for one in ranked if one.steps]
        right = self._first_right(one for i, one in enumerate(ranked) if not i or self._time.left > 0)
        if not right:
            return None
        if not self._time.may_prove:
            self._time.note(SIZE_ALONE)
            return self._choose(right)
        first = right[0].candidate
        simpler = (*self._chains.only_what_was_asked_for(first), *self._chains.without_doubtful(first))
        rivals = unique([first, *simpler, *ranked])[: self._time.lanes_at_the_end(FEW)]
        timed = self._timed([], rivals)
        if all(item.digest != first.digest for item in timed):
            self._time.note(SIZE_ALONE)
            timed = [*right, *timed]
        return self._choose(timed)

    def _choose(self, measured: Sequence[Measured]) -> Measured | None:
        """Returns what is delivered of models that were proven; None where none of them is better."""
        better = [item for item in measured if self.is_better(item)]
        if not better:
            return None
        if self.objective.is_size:
            return self._unbeaten(better)
        best = min(better, key=lambda item: (self.objective.figure(item), item.ratio or 1.0))
        as_good = [item for item in better if self.objective.figure(item) <= self.objective.figure(best) * (1 + SAME)]
        return min(unbeaten_beside_speed(as_good), key=lambda item: len(item.candidate.steps))

    def _unbeaten(self, better: Sequence[Measured]) -> Measured:
        """Returns the smallest; of as small ones what no clock decides, unless another is as good and a lot faster."""
        best = min(better, key=lambda item: (self.objective.figure(item), *tie_of(item)))
        # the same bytes can be slower for nothing, and what less decides differs from run to run
        faster = [item for item in better if beats(item, best) and SURPRISE * speed(item) < speed(best)]
        return min(faster, key=tie_of, default=best)

    def measure(self, candidates: Sequence[Candidate]) -> list[Measured]:
        """Times candidates on fresh rounds, and compares their outputs on every sample that the gate uses.

        What contends is timed twice, in processes of its own each time.
        """
        found = self._held_against_source(self._timed_again(self.clock.prove(candidates)))
        for item in found:
            self._board.proven(item)
        return found

    def _timed_again(self, found: list[Measured]) -> list[Measured]:
        """Returns the figures with a second look at what contends, then at what leads if that look changed who does."""
        figures = [self.objective.figure(item) for item in found]
        contending = [item for item, figure in zip(found, figures, strict=True) if figure <= DIFFER * min(figures)]
        looked: set[str] = set()
        while not self.objective.is_size:
            new = [item for item in contending if not item.candidate.is_original and item.digest not in looked]
            if not new:
                break
            looked |= {item.digest for item in new}
            again = {item.digest: item for item in self.clock.again(new)}
            found = [again.get(item.digest, item) for item in found]
            found = [item for item in found if not self._board[item.candidate].objection]
            contending = sorted(filter(self.is_better, found), key=self.objective.figure)[:1]
        return found

    def check(self, candidate: Candidate) -> Measured | None:
        """Whether a candidate is right on a target that cannot be timed; the board says why not."""
        found = self.clock.check(candidate)
        held = self._held_against_source([found]) if found is not None else []
        return held[0] if held else None

    def measure_nearest(self, candidates: Sequence[Candidate]) -> Measured | None:
        """Measures candidates beyond the budget on all samples, and keeps one of them aside.

        Of what there is no time to measure, the figures of its first look stand.

        Args:
            candidates: the nearest to the budget first; they can be timed against one original.

        Returns:
            The first that would be delivered with a larger budget, else the first; None where none of them runs.
        """
        timed, found = self._board.target.timed, list[Measured]()
        for candidate, result in zip(candidates, self.clock.beyond(candidates), strict=False):  # the nearest at least
            if result.ready is not None and (result.ratio is not None or not timed):
                found.append(Measured.of(candidate, result))
            elif result.out_of_time:
                row = self._board.find(candidate)
                found.append(Measured(candidate, LaneResult(ratio=row.timing if row is not None else None)))
        if not found:
            return None
        chosen = next(filter(self.would_help, found), found[0])
        self._source.objection(chosen.candidate)
        chosen = replace(chosen, source=self._board[chosen.candidate].source)
        self._board.aside(chosen)
        return chosen

    def nearest_to_bounds(self) -> Measured | None:
        """Proves what comes nearest to the bounds within the budget, and keeps it aside; None if there is nothing.

        What was proven already is not proven again.
        """
        found = self._by_excess(self._proven.values())
        new = self._by_excess(item for item in self._board.held() if item.digest not in self._proven)
        if (
            new
            and self._time.may_prove_more
            and (not found or self.objective.excess(new[0]) < self.objective.excess(found[0]))
        ):
            nearest = [item.candidate for item in new[:FEW]]
            if self._board.target.timed:
                found = self._by_excess([*found, *self._prove(nearest)])
            else:
                found = self._by_excess([*found, *filter(None, map(self._checked, nearest[:1]))])
        if found:
            self._board.aside(found[0])
        return found[0] if found else None

    def _by_excess(self, items: Iterable[Measured]) -> list[Measured]:
        """Returns those with a step, the nearest to the bounds first."""
        changed = [item for item in items if item.candidate.steps]
        return sorted(
            changed, key=lambda item: (self.objective.excess(item), self.objective.figure(item), item.ratio or 1.0)
        )

    def is_better(self, item: Measured) -> bool:
        """Whether it reaches the goal: faster beyond the noise, or smaller.

        Where the target needs passes and cannot be timed, the original is no alternative: what runs is better.
        """
        steps = item.candidate.steps
        if self.objective.objection(item):
            return False
        if not self._board.target.timed and self._board.target.requires:
            return bool(steps)
        if steps and all(step.role is not Role.IMPROVE and self._chains.was_asked_for(step) for step in steps):
            return True
        return self.would_help(item)

    @property
    def undecided(self) -> str:
        """The figures of the best that holds and may be faster than the original; empty if there is none.

        That is one whose interval reaches the line, or settings that gained beside other programs.
        """
        held = [item for item in self._proven.values() if not self._chains.only_makes_way(item.candidate)]
        while (best := self.objective.best_undecided(held)) is not None:
            if not self._chains.changes_nothing(best.candidate):
                return self.objective.why_undecided(best, self._time)
            held.remove(best)
        best = self._of_load
        if best is None or self._chains.changes_nothing(best.candidate):
            return ""
        return self.objective.why_undecided(best, self._time)

    def would_help(self, item: Measured) -> bool:
        """Whether its figures say that it is better than the original, whatever it drifts."""
        original = self._races.original_for(item.candidate)  # figures are held against that
        return self.objective.is_reached(item, original)

    def _timed(self, ranking: Sequence[Measured], finalists: Sequence[Candidate]) -> list[Measured]:
        """Proves the finalists with other points of the front, and what came next where they did not hold."""
        may_be_open = min(self._races.at_once, self._time.lanes_at_the_end(len(finalists) + FEW))
        room = max(0, min(FEW, may_be_open - len(finalists)))
        finalists = [*finalists, *worth_proving(self._board.held(), finalists, room)]
        measured = self._prove(finalists)
        repaired = self._repaired(finalists, self._looks(ranking), self._best(measured))
        measured += self._prove([repaired]) if repaired is not None else []
        known = {candidate.digest for candidate in finalists}
        for _ in range(FEW):
            explored = [item for item in ranking if not self._chains.only_makes_way(item.candidate)]
            new = [item for item in (*explored, *self._board.held()) if item.digest not in known]
            waiting = self._promising(new, measured)
            if self._time.before_last_race < 0:  # one more is proven all the same, if there is time for one
                waiting = waiting[:1] if self._time.may_prove_more else []
            if not waiting:
                break
            self._races.say("the best failed: measuring the next one")
            known |= {candidate.digest for candidate in waiting}
            measured += self._prove(waiting)
        return measured

    def _prove(self, candidates: Sequence[Candidate]) -> list[Measured]:
        """Measures candidates, and tells the board what does not hold on all samples."""
        measured = self.measure(candidates)
        self._judged += candidates
        self._board.note_objections(candidates)
        self._proven |= {item.digest: item for item in measured}
        for item in measured:
            attempt = self._board.find(item.candidate)
            if attempt is None or item.candidate.is_original or item.lane.ratio is None:
                continue
            if self.objective.is_latency and not self.is_better(item):
                attempt.settle(StepStatus.DROPPED, why_no_faster(attempt, item.lane.ratio))
            attempt.note(item, proven=True)
        return measured

    def _repaired(self, candidates: Iterable[Candidate], looks: Mapping[str, float], best: float) -> Candidate | None:
        """Repairs the best of those that break the budget on all samples, where nothing that holds is as fast.

        Args:
            candidates: that were compared.
            looks: what was explored of them, as what is made small.
            best: what holds, in the same figures; infinite where nothing does.
        """
        broken = [one for one in candidates if self._board[one].broken is not None]
        for candidate in sorted(broken, key=lambda one: looks.get(one.digest, math.inf)):
            if looks.get(candidate.digest, math.inf) >= best:
                break
            self._races.say("the best is beyond the budget on all samples: repairing it")
            if (found := self._repair(candidate)) is not None:
                return found
        return None

    def _repair(self, candidate: Candidate) -> Candidate | None:
        """Repairs what broke the budget on samples of the run: a repair measures on those, and not on a source."""
        record = self._board[candidate]
        if self._repairs is None or record.broken is None or record.source_objection:
            return None
        return self._repairs.on_all_samples(record.broken)

    @property
    def objections(self) -> list[Objection]:
        """Why what may have been delivered does not hold, the first found first."""
        return [found for one in self._judged if (found := self._board[one].objection)]

    def _promising(self, items: Sequence[Measured], measured: Sequence[Measured]) -> list[Candidate]:
        """Returns what looked better than all that held, the best first.

        Where something held and nothing failed, a quick look that promised more has been outrun, not cut short.
        """
        best = self._best(measured)
        if math.isfinite(best) and not self.objections:
            return []
        chosen: list[Candidate] = []
        for item in sorted(items, key=self.objective.figure):
            reached = self.objective.figure(item) < best and not self._board[item.candidate].is_late
            if reached and not item.candidate.is_original and self._board[item.candidate].broken is None:
                chosen.append(item.candidate)
        return unique(chosen)[:FEW]

    def _may_win(self, item: Measured) -> bool:
        """Whether a candidate does more than make way, came back in time, and may keep within the bounds."""
        wrong = self._chains.only_makes_way(item.candidate) or self._board[item.candidate].is_late
        return not wrong and self.objective.excess(item) <= 0

    def _held_against_source(self, items: Sequence[Measured]) -> list[Measured]:
        """Returns those that also hold against the module that was exported; the others get an objection."""
        held = self._source.judge(items)
        for item in items:
            score = self._board[item.candidate]
            if score.source_objection:
                score.objection = score.source_objection
                drift = item.candidate.drift
                drift = drift.worst(score.source.drift) if score.source is not None else drift
                score.broken = replace(item.candidate, drift=drift)
        return held

    def _first_right(self, candidates: Iterable[Candidate]) -> list[Measured]:
        """Returns the first candidate that is right, where no clock tells which is better: the others need no look."""
        for candidate in candidates:
            found = self._checked(candidate)
            if found is None and (repaired := self._repair(candidate)) is not None:
                found = self._checked(repaired)
            if found is not None and self.is_better(found):
                self._board.proven(found)
                return [found]
        return []

    def _checked(self, candidate: Candidate) -> Measured | None:
        found = self.check(candidate)
        self._judged.append(candidate)
        self._board.note_objections([candidate])
        return found

    def _best(self, measured: Sequence[Measured]) -> float:
        """The figure of the best that is better than the original; infinite where none is."""
        return min((self.objective.figure(item) for item in measured if self.is_better(item)), default=math.inf)


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
