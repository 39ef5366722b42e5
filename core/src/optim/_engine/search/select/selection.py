"""The end of a search: the best candidates on fresh rounds and all samples, and the one that is delivered."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from optim._engine.search.deadline import Deadline
from optim._engine.search.journal import Journal
from optim._engine.search.measure.clock import NOT_TIMED, SIZE_ALONE, Clock
from optim._engine.search.measure.racing import comparable_original, lanes_at_once
from optim._engine.search.measure.source_gate import SourceGate
from optim._engine.search.select.all_samples import (
    SAME,
    AllSamples,
    Hope,
    best_beside,
    chance_of,
    is_alike,
    note_no_faster,
    note_objections,
)
from optim._engine.search.select.archive import ParetoArchive, beats, tie_of, unbeaten_beside_speed
from optim._engine.search.select.nearest import Nearest
from optim._engine.search.select.shorter import ShorterChains
from optim._engine.search.state import Candidate, Measured, unique
from optim._engine.search.taste import DIFFER, FEW
from optim._engine.search.workbench import Workbench
from optim.goal import FASTER, Basis
from optim.passes import Role

_A_LOT = 0.8
"""Where size is the goal, what is as small and as accurate has to be so much faster: the same bytes can be slower for
nothing, and what less decides differs from run to run."""


class Selection:
    """Selects the candidate that is delivered.

    Attributes:
        clock: of the last races; its board says what held on all samples.
    """

    def __init__(self, bench: Workbench, journal: Journal, archive: ParetoArchive, time: Deadline) -> None:
        self._bench = bench
        self._journal = journal
        self._archive = archive
        self._time = time
        self.objective = bench.objective
        self.clock = Clock(bench, time)
        self._board = self.clock.board
        self._shorter = ShorterChains(bench, journal, time)
        self._source = SourceGate(bench, self._board)
        self._nearest = Nearest(bench, journal, archive, self.clock, self._source)
        self._all_samples = AllSamples(bench, journal, archive, self.clock, time)
        self._proven: dict[str, Measured] = {}
        self._of_load: Measured | None = None

    def decide(self, ranking: Sequence[Measured]) -> Measured | None:
        """Returns the candidate to deliver, measured anew; None where nothing is better than the original.

        What looked best on few samples may break the budget on all of them, or be slower on fresh rounds: then what
        came next is measured, until something holds that nothing explored promises to beat.
        """
        finalists = [item.candidate for item in ranking if self._may_win(item)]
        if self.objective.is_size and self._bench.target.timed:
            return self._smallest(finalists)
        if self._bench.target.timed:
            finalists = self._leading(finalists, ranking)
        finalists = finalists[: self._time.lanes_at_the_end(FEW)]
        finalists = self._shorter.without_idle(finalists)
        if not finalists:
            return None
        if self._bench.target.timed and not self._time.may_prove:
            self._bench.deadline.note(NOT_TIMED)
            return None
        asked = self._shorter.only_what_was_asked_for(finalists[0])
        shorter = self._shorter.without_doubtful(finalists[0])
        plain = [one for one in shorter if self._shorter.only_set(finalists[0].steps[len(one.steps) :])]
        beside = self._beside(finalists, ranking)
        finalists = unique([finalists[0], *asked, *beside, *plain, *finalists[1:], *shorter])
        finalists = finalists[: max(1 + len(asked) + len(beside), self._time.lanes_at_the_end(len(finalists)))]
        measured = self._timed(ranking, finalists) if self._bench.target.timed else self._first_right(finalists)
        while (chosen := self._choose(measured)) is not None and self._is_for_speed:
            rest = self._shorter.without_gains_of_load(chosen)
            if rest is None and not self._shorter.changes_nothing(chosen.candidate):
                break
            self._of_load = self._of_load or (chosen if rest is not None else None)
            measured = [item for item in measured if item.digest != chosen.digest]
            self._archive.dismiss(chosen.candidate)
            known = {self._bench.original.digest, *(one.digest for one in finalists)}
            if rest is not None and rest.digest not in known and self._time.may_prove:
                measured += self._prove([rest])
        return chosen

    @property
    def _is_for_speed(self) -> bool:
        """Whether a result must be faster than the original; not where the original breaks a bound."""
        return self.objective.basis is Basis.CALLS and not self._original_objection

    @property
    def _original_objection(self) -> str:
        return self.objective.original_objection(self._bench.original, self.clock.base)

    def _leading(self, ranked: Sequence[Candidate], ranking: Sequence[Measured]) -> list[Candidate]:
        """Returns what may win without what breaks the budget on all samples, the best of that repaired."""
        promised = self._promised(ranking)
        others = sorted(filter(self._may_win, self._archive.held()), key=self._rank)
        return self._all_samples.leading(ranked, promised) or self._all_samples.leading(
            [item.candidate for item in others], promised
        )

    def _beside(self, finalists: Sequence[Candidate], ranking: Sequence[Measured]) -> list[Candidate]:
        """Returns what is proven beside the finalists, since all samples may not allow what few did."""
        promised = self._promised(ranking)
        whole = self.objective.figure(Measured(self._bench.original, 1.0), self.clock.base)
        if self.objective.is_accuracy:  # nothing is better than the original, and no gain tells what is worth a lane
            return []

        def hope(candidate: Candidate) -> Hope:
            known = self._board[candidate].ahead is not None
            gain = math.log(whole / promised(candidate)) if 0 < promised(candidate) < math.inf else 0.0
            return Hope(candidate, gain, 1.0 if known else chance_of(candidate, self._bench.budget))

        others = unique(item.candidate for item in (*self._archive.held(), *ranking) if self._may_win(item))
        right = [one for one in others if not self._board.is_wrong(one)]
        return best_beside([hope(one) for one in finalists], map(hope, right))

    def _promised(self, ranking: Sequence[Measured]) -> Callable[[Candidate], float]:
        """Tells what was explored of a candidate, as what is made small; infinite where nothing was."""
        explored = {item.digest: self._rank(item) for item in (*self._archive.held(), *ranking)}
        return lambda candidate: explored.get(candidate.digest, math.inf)

    def _smallest(self, ranked: Sequence[Candidate]) -> Measured | None:
        """Returns the smallest that is right on all samples, timed beside what came next where there is time for it."""
        ranked = [one for one in ranked if one.steps]
        right = self._first_right(one for i, one in enumerate(ranked) if not i or self._bench.deadline.left > 0)
        if not right:
            return None
        if not self._time.may_prove:
            self._bench.deadline.note(SIZE_ALONE)
            return self._choose(right)
        first = right[0].candidate
        simpler = (*self._shorter.only_what_was_asked_for(first), *self._shorter.without_doubtful(first))
        rivals = unique([first, *simpler, *ranked])[: self._time.lanes_at_the_end(FEW)]
        timed = self._timed([], [one for one in rivals if is_alike(one, first)])
        if all(item.digest != first.digest for item in timed):
            self._bench.deadline.note(SIZE_ALONE)
            timed = [*right, *timed]
        return self._choose(timed)

    def _choose(self, measured: Sequence[Measured]) -> Measured | None:
        """Returns what is delivered of models that were proven; None where none of them is better."""
        better = [item for item in measured if self.is_better(item)]
        if not better:
            return None
        if self.objective.is_size:
            return self._unbeaten(better)
        best = min(better, key=lambda item: (self._rank(item), item.ratio or 1.0))
        as_good = [item for item in better if self._is_as_good(item, best)]
        return min(unbeaten_beside_speed(as_good), key=lambda item: len(item.candidate.steps))

    def _unbeaten(self, better: Sequence[Measured]) -> Measured:
        """Returns the smallest; of as small ones what no clock decides, unless another is as good and a lot faster."""
        best = min(better, key=lambda item: (self._rank(item), *tie_of(item)))
        faster = [item for item in better if beats(item, best) and (item.ratio or 1.0) < _A_LOT * (best.ratio or 1.0)]
        return min(faster, key=tie_of, default=best)

    def measure(self, candidates: Sequence[Candidate]) -> list[Measured]:
        """Times candidates on fresh rounds, and compares their outputs on every sample that the gate uses.

        What contends is timed twice, in processes of its own each time.
        """
        self._make_originals(candidates)
        found = self._held_against_source(self._timed_again(self.clock.prove(candidates)))
        for item in found:
            self._archive.proven(item, self._board[item.candidate].result)
        return found

    def _timed_again(self, found: list[Measured]) -> list[Measured]:
        """Returns the figures with a second look at what contends, then at what leads if that look changed who does."""
        figures = [self._rank(item) for item in found]
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
            contending = sorted(filter(self.is_better, found), key=self._rank)[:1]
        return found

    def check(self, candidate: Candidate) -> Measured | None:
        """Whether a candidate is right on a target that cannot be timed; the board says why not."""
        self._make_originals([candidate])
        found = self.clock.check(candidate)
        held = self._held_against_source([found]) if found is not None else []
        return held[0] if held else None

    def measure_nearest(self, candidates: Sequence[Candidate]) -> Measured | None:
        """Measures candidates beyond the budget, see :meth:`Nearest.measure`."""
        self._make_originals(candidates)
        return self._nearest.measure(candidates, self.would_help)

    def nearest_to_bounds(self) -> Measured | None:
        """Proves what comes nearest to the bounds within the budget, and keeps it aside; None if there is nothing.

        What was proven already is not proven again.
        """
        found = self._by_excess(self._proven.values())
        new = self._by_excess(item for item in self._archive.held() if item.digest not in self._proven)
        if new and self._time.may_prove_more and (not found or self._excess(new[0]) < self._excess(found[0])):
            alike = [item.candidate for item in new if is_alike(item.candidate, new[0].candidate)]
            if self._bench.target.timed:
                found = self._by_excess([*found, *self._prove(alike[:FEW])])
            else:
                found = self._by_excess([*found, *filter(None, map(self._checked, alike[:1]))])
        if found:
            self._archive.aside(found[0], self._board[found[0].candidate].result)
        return found[0] if found else None

    def _by_excess(self, items: Iterable[Measured]) -> list[Measured]:
        """Returns those with a step, the nearest to the bounds first."""
        changed = [item for item in items if item.candidate.steps]
        return sorted(changed, key=lambda item: (self._excess(item), self._rank(item), item.ratio or 1.0))

    def _excess(self, item: Measured) -> float:
        return self.objective.excess(item, self.clock.base)

    def is_better(self, item: Measured) -> bool:
        """Whether it reaches the goal: faster beyond the noise, or smaller.

        Where the target needs passes and cannot be timed, the original is no alternative: what runs is better.
        """
        steps = item.candidate.steps
        if self.objective.objection(item, self.clock.base):
            return False
        if not self._bench.target.timed and self._bench.target.requires:
            return bool(steps)
        if steps and all(step.role is not Role.IMPROVE and self._shorter.was_asked_for(step) for step in steps):
            return True
        return self.would_help(item)

    @property
    def undecided(self) -> str:
        """The figures of the best that holds and may be faster than the original; empty if there is none.

        That is one whose interval reaches the line, or settings that gained beside other programs.
        """
        held = [item for item in self._proven.values() if not self._shorter.only_makes_way(item.candidate)]
        while (best := self.objective.best_undecided(held)) is not None:
            if not self._shorter.changes_nothing(best.candidate):
                return self.objective.why_undecided(best, self._bench.deadline)
            held.remove(best)
        best = self._of_load
        if best is None or self._shorter.changes_nothing(best.candidate):
            return ""
        return self.objective.why_undecided(best, self._bench.deadline)

    def would_help(self, item: Measured) -> bool:
        """Whether its figures say that it is better than the original, whatever it drifts."""
        recast = item.candidate.recast
        original = self._bench.original if recast is None else self._bench.recast_originals[recast.key]
        return self.objective.is_reached(item, self.clock.base, original)

    def _make_originals(self, candidates: Sequence[Candidate]) -> None:
        """Apply the step that changed what goes in and comes out to the original: figures are held against that."""
        for candidate in candidates:
            comparable_original(self._bench, candidate)

    def _timed(self, ranking: Sequence[Measured], finalists: Sequence[Candidate]) -> list[Measured]:
        """Proves the finalists with other points of the front, and what came next where they did not hold."""
        others = self._archive.worth_proving(finalists, self._room(finalists))
        finalists = [*finalists, *(one for one in others if is_alike(one, finalists[0]))]
        promised = self._promised(ranking)
        measured = self._prove(finalists)
        repaired = self._all_samples.repaired(finalists, promised, self._best(measured))
        measured += self._prove([repaired]) if repaired is not None else []
        known = {candidate.digest for candidate in finalists}
        with self._time.fallbacks.spending():
            for _ in range(FEW):
                explored = [item for item in ranking if not self._shorter.only_makes_way(item.candidate)]
                explored += [item for item in self._archive.held() if is_alike(item.candidate, finalists[0])]
                new = [item for item in explored if item.digest not in known]
                waiting = self._promising(new, measured)
                if self._time.fallbacks.left < 0:  # with nothing to deliver one more is proven all the same
                    waiting = waiting[:1] if math.isinf(self._best(measured)) and self._time.may_prove_more else []
                if not waiting:
                    break
                self._bench.say("the best failed: measuring the next one")
                known |= {candidate.digest for candidate in waiting}
                measured += self._prove(waiting)
        return measured

    def _prove(self, candidates: Sequence[Candidate]) -> list[Measured]:
        """Measures candidates, and tells the journal what does not hold on all samples."""
        measured = self.measure(candidates)
        note_objections(self._journal, self._archive, self._board, candidates)
        self._proven |= {item.digest: item for item in measured}
        for item in measured:
            attempt = self._journal.find(item.candidate)
            if attempt is None or item.candidate.is_original or item.ratio is None:
                continue
            if self.objective.is_latency and not self.is_better(item):
                note_no_faster(attempt, item)
            attempt.note(item, proven=True)
        return measured

    def _promising(self, items: Sequence[Measured], measured: Sequence[Measured]) -> list[Candidate]:
        """Returns what looked better than anything that held, the best first; a graph that was wrong is left out.

        Where something held and nothing failed, a quick look that promised more has been outrun, not cut short.
        """
        best = self._best(measured)
        if math.isfinite(best) and not self._board.objections:
            return []
        chosen: list[Candidate] = []
        for item in sorted(items, key=self._rank):
            reached = self._rank(item) < best and self._could_be_better(item)
            reached = reached and item.digest not in self._bench.unanswered
            if reached and not item.candidate.is_original and not self._board.is_wrong(item.candidate):
                chosen.append(item.candidate)
        return unique(chosen)[:FEW]

    def _may_win(self, item: Measured) -> bool:
        """Whether a candidate does more than make way, and no quick look has shown it to be slower."""
        if self._shorter.only_makes_way(item.candidate) or item.digest in self._bench.unanswered:
            return False
        return self._could_be_better(item) or any(map(self._shorter.was_asked_for, item.candidate.steps))

    def _could_be_better(self, item: Measured) -> bool:
        """Whether a quick look leaves it a chance to be better than the original, within the bounds."""
        if self.objective.excess(item, self.clock.base) > 0:
            return False
        return not self.objective.is_latency or item.low is None or item.low < FASTER

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

    def _room(self, finalists: Sequence[Candidate]) -> int:
        """How many more models may be open at once."""
        there_are = min(lanes_at_once(self._bench), self._time.lanes_at_the_end(len(finalists) + FEW))
        return max(0, min(FEW, there_are - len(finalists)))

    def _first_right(self, candidates: Iterable[Candidate]) -> list[Measured]:
        """Returns the first candidate that is right, where no clock tells which is better: the others need no look."""
        for candidate in candidates:
            found = self._checked(candidate)
            if found is None and (repaired := self._all_samples.repair(candidate)) is not None:
                found = self._checked(repaired)
            if found is not None and self.is_better(found):
                self._archive.proven(found, None)
                return [found]
        return []

    def _checked(self, candidate: Candidate) -> Measured | None:
        found = self.check(candidate)
        note_objections(self._journal, self._archive, self._board, [candidate])
        return found

    def _rank(self, item: Measured) -> float:
        return self.objective.figure(item, self.clock.base)

    def _best(self, measured: Sequence[Measured]) -> float:
        """The figure of the best that is better than the original; infinite where none is."""
        return min((self._rank(item) for item in measured if self.is_better(item)), default=math.inf)

    def _is_as_good(self, item: Measured, best: Measured) -> bool:
        if item is best:
            return True
        if self.objective.is_size:
            return False
        if self._rank(item) <= self._rank(best) * SAME:
            return True
        more = [step for step in best.candidate.steps if step not in item.candidate.steps]
        fits = all(step in best.candidate.steps for step in item.candidate.steps)
        return fits and self._rank(item) <= self._rank(best) * self._shorter.to_show(more, best)
