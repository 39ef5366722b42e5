"""The end of a search: the best chains on fresh rounds and all samples, and what nothing needs taken out."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace

from optim._engine.gate.budget import Budget
from optim._engine.search.journal import Journal
from optim._engine.search.measure.clock import Clock, measured_of, with_comparison
from optim._engine.search.measure.race import Effort
from optim._engine.search.measure.racing import check_chain, comparable_original, lanes_at_once, race_chains
from optim._engine.search.measure.source_gate import SourceGate
from optim._engine.search.select.archive import ParetoArchive
from optim._engine.search.select.chains import Chains
from optim._engine.search.select.goal import FASTER, Objective
from optim._engine.search.select.repair import Repairer
from optim._engine.search.state import Candidate, Measured, Step, StepStatus
from optim._engine.search.workbench import Workbench
from optim.passes import Role

_FINALISTS = 3
_OTHERS = 3
"""So many other points of the front are proven too, for whoever wants another compromise."""

_FALLBACKS = 3
"""So often the next best of what was explored is looked at, where the best ones did not hold."""

_FALLBACKS_S = 20.0
"""And only within this time: where a busy machine hides every difference, more rounds do not find one."""

_PROMISE = 1.15
"""By so much more must have been promised than what held, to be worth more time."""

_FINAL_S = 8.0
_AGAIN_S = 6.0
_SHORTER_S = 12.0
"""For applying steps again, to see which of them are needed."""

_CONTENDS = 1.05
"""What is slower than the best by more is not timed a second time."""

_SAME = 1.01
"""Within one per cent the shorter chain is taken."""

_NEEDED = 1.05
"""What only makes way must show more: the same graph differs by some per cent from process to process."""


class Selection:
    """Decides which chain is delivered."""

    def __init__(self, bench: Workbench, budget: Budget, journal: Journal, archive: ParetoArchive) -> None:
        self._bench = bench
        self._budget = budget
        self._journal = journal
        self._archive = archive
        self._objective = Objective(bench.settings.goal, bench.target.timed)
        self._chains = Chains(bench, journal)
        self._repairer = Repairer(bench, budget, journal)
        self._source = SourceGate(bench, budget)
        self.clock = Clock(bench, budget, time.monotonic())

    def decide(self, ranking: Sequence[Measured]) -> Measured | None:
        """The chain to deliver, measured anew; None where nothing is better than the original.

        What looked best on few samples may break the budget on all of them, or be slower on fresh rounds: then what
        came next is measured, until something holds that nothing explored promises to beat.
        """
        finalists = [item.candidate for item in ranking if not self._only_makes_way(item.candidate.steps)][:_FINALISTS]
        if not finalists:
            return None
        known = {candidate.model.digest for candidate in finalists}
        shorter = [*self._only_what_was_asked_for(finalists[0]), *self._shorter(finalists[0])]
        finalists += list({n.model.digest: n for n in shorter if n.model.digest not in known}.values())
        measured = self._measured(ranking, finalists) if self._bench.target.timed else self._first_right(finalists)
        better = [item for item in measured if self.is_better(item)]
        if not better:
            return None
        best = min(better, key=self._rank)
        return min((item for item in better if self._as_good(item, best)), key=lambda item: len(item.candidate.steps))

    def _measured(self, ranking: Sequence[Measured], finalists: Sequence[Candidate]) -> list[Measured]:
        """The finalists with other points of the front, and what came next where they did not hold."""
        others = self._archive.worth_proving(finalists, self._room(finalists))
        finalists = [*finalists, *(candidate for candidate in others if self._alike(candidate, finalists[0]))]
        measured = self._prove(finalists)
        measured += self._mended(finalists, ranking, measured)
        known = {candidate.model.digest for candidate in finalists}
        deadline = time.monotonic() + _FALLBACKS_S
        for _ in range(_FALLBACKS):
            promised = [item for item in ranking if not self._only_makes_way(item.candidate.steps)]
            promised += [item for item in self._archive.held() if self._alike(item.candidate, finalists[0])]
            waiting = self._promising([item for item in promised if item.candidate.model.digest not in known], measured)
            if not waiting or time.monotonic() > deadline:
                break
            self._bench.say("the best did not hold: measuring what came next")
            known |= {candidate.model.digest for candidate in waiting}
            measured += self._prove(waiting)
        return measured

    def _mended(
        self, candidates: Sequence[Candidate], ranking: Sequence[Measured], measured: Sequence[Measured]
    ) -> list[Measured]:
        """The best of those that break the budget on all samples, repaired: where nothing that holds is as fast."""
        explored = {item.candidate.model.digest: self._rank(item) for item in (*self._archive.held(), *ranking)}
        best = min((self._rank(item) for item in measured if self.is_better(item)), default=math.inf)
        wrong = [candidate for candidate in candidates if self._is_mendable(candidate)]
        for candidate in sorted(wrong, key=lambda candidate: explored.get(candidate.model.digest, math.inf)):
            if explored.get(candidate.model.digest, math.inf) * _SAME >= best:
                break
            self._bench.say("the best did not hold on all samples: repairing it")
            mended = self._repairer.mend(self.clock.wrong[candidate.model.digest])
            if mended is not None:
                return self._prove([mended])
        return []

    def _is_mendable(self, candidate: Candidate) -> bool:
        """Whether samples of the run showed it to be beyond the budget: a repair measures on those, not on a source."""
        return candidate.model.digest in self.clock.wrong and candidate.model.digest not in self._source.objections

    def _alike(self, candidate: Candidate, other: Candidate) -> bool:
        """Whether both take and give the same, so that they can be timed against one original."""
        return (candidate.recast is None) == (other.recast is None)

    def _prove(self, candidates: Sequence[Candidate]) -> list[Measured]:
        """Fresh rounds, and the journal told of what does not hold on all samples."""
        measured = self.measure(candidates)
        self._note_objections(candidates)
        for item in measured:
            if self._objective.goal == "latency" and item.candidate.steps and not self.is_better(item):
                self._note_no_faster(item)
        return measured

    def _note_no_faster(self, item: Measured) -> None:
        """What was faster when explored and is not on fresh rounds: both figures belong into the report."""
        attempt = self._journal.find(item.candidate)
        if attempt is not None and item.ratio is not None and item.low is not None and item.high is not None:
            explored = f", {attempt.ratio:.2f} when explored" if attempt.ratio is not None else ""
            said = f"latency ratio {item.ratio:.2f} on fresh rounds (95 % interval {item.low:.2f} to {item.high:.2f})"
            attempt.settle(StepStatus.DROPPED, f"not clearly faster than the original: {said}{explored}")

    def _note_objections(self, candidates: Sequence[Candidate]) -> None:
        for candidate in candidates:
            if objection := self.clock.objections.get(candidate.model.digest):
                attempt = self._journal.find(candidate)
                if attempt is not None:
                    seen = "" if candidate.model.digest in self._source.objections else "on all samples: "
                    attempt.settle(StepStatus.DROPPED, seen + objection)
                if candidate.model.digest in self.clock.wrong:
                    self._archive.judged(self.clock.wrong[candidate.model.digest], objection)

    def _promising(self, items: Sequence[Measured], measured: Sequence[Measured]) -> list[Candidate]:
        """The next to prove: what looked better than anything that held; a graph that was wrong is wrong again.

        Where something held and nothing failed, a quick look that promised more has been outrun, not cut short.
        """
        wrong = {candidate.model.path for candidate in self.clock.wrong.values()}
        best = min((self._rank(item) for item in measured if self.is_better(item)), default=math.inf)
        if math.isfinite(best) and not self.clock.objections:
            return []
        chosen: dict[str, Candidate] = {}
        for item in sorted(items, key=self._rank):
            reached = self._rank(item) * _PROMISE < best and self._could_be_better(item)
            if reached and item.candidate.steps and item.candidate.model.path not in wrong:
                chosen.setdefault(item.candidate.model.digest, item.candidate)
        return list(chosen.values())[:_FINALISTS]

    def _could_be_better(self, item: Measured) -> bool:
        """Whether a quick look leaves it a chance to be better than the original."""
        if self._objective.goal == "latency":
            return item.low is None or item.low < FASTER
        return True

    def measure(self, candidates: Sequence[Candidate]) -> list[Measured]:
        """Fresh rounds against the original, outputs compared on every sample the gate uses.

        What contends is timed twice, in processes of its own each time.
        """
        effort = self._effort(_FINAL_S, least_rounds=10, drop=len(candidates) > 1)
        found = self.clock.measure(candidates, effort, "final", self._bench.prepared.compared, measure_task=True)
        figures = [self._rank(item) for item in found]
        contending = [item for item, figure in zip(found, figures, strict=True) if figure <= _CONTENDS * min(figures)]
        if contending and self._objective.goal != "size":
            effort = self._effort(_AGAIN_S, least_rounds=8, drop=len(contending) > 1)
            again = {item.candidate.model.digest: item for item in self.clock.again(contending, effort)}
            found = [again.get(item.candidate.model.digest, item) for item in found]
            found = [item for item in found if item.candidate.model.digest not in self.clock.objections]
        found = self._held_against_source(found)
        for item in found:
            self._archive.proven(item, self.clock.results.get(item.candidate.model.digest))
        return found

    def _held_against_source(self, items: Sequence[Measured]) -> list[Measured]:
        """What also holds against the module that was exported; why others do not is an objection as any other."""
        held = self._source.judge(items)
        for item in items:
            if objection := self._source.objections.get(item.candidate.model.digest):
                self.clock.objections[item.candidate.model.digest] = objection
                found = self._source.found.get(item.candidate.model.digest)
                drift = item.candidate.drift.worst(found.drift) if found is not None else item.candidate.drift
                self.clock.wrong[item.candidate.model.digest] = replace(item.candidate, drift=drift)
        return held

    def check(self, candidate: Candidate) -> Measured | None:
        """Whether a chain is right on a target that cannot be timed; why not is among the clock's objections."""
        found = self.clock.check(candidate)
        held = self._held_against_source([found]) if found is not None else []
        return held[0] if held else None

    def aside(self, candidate: Candidate) -> Measured | None:
        """Figures of a model beyond the budget, on all samples; None where it does not run."""
        if not self._bench.target.timed:
            ready = check_chain(self._bench, candidate).ready
            if ready is None:
                return None
            unmeasured = self._with_source(
                Measured(with_comparison(candidate, ready), None, comparisons=ready.comparisons)
            )
            self._archive.aside(unmeasured, None)
            return unmeasured
        effort = self._effort(_AGAIN_S, least_rounds=8, drop=False)
        _, (result,) = race_chains(
            self._bench, [candidate], effort, purpose="aside", samples=self._bench.prepared.compared, measure_task=True
        )
        if result.ready is None or result.ratio is None:
            return None
        measured = self._with_source(measured_of(candidate, result))
        self._archive.aside(measured, result)
        return measured

    def _with_source(self, item: Measured) -> Measured:
        """With how far it is from the source, whether it holds or not."""
        self._source.objection(item.candidate)
        return replace(item, source=self._source.found.get(item.candidate.model.digest))

    def _effort(self, seconds: float, *, least_rounds: int, drop: bool) -> Effort:
        return Effort(
            seconds=seconds,
            least_rounds=least_rounds,
            most_rounds=40,
            width=0.015,
            drop=drop,
            open_timeout_s=self._bench.settings.timeout_s,
            patience_s=seconds / 2,
        )

    def _room(self, finalists: Sequence[Candidate]) -> int:
        """So many more models may be open at once."""
        return max(0, min(_OTHERS, lanes_at_once(self._bench) - len(finalists)))

    def _first_right(self, candidates: Sequence[Candidate]) -> list[Measured]:
        """The best of the chains that is right, on a target that cannot be timed: the others need no look."""
        for candidate in candidates:
            found = self._checked(candidate)
            if found is None and self._is_mendable(candidate):
                mended = self._repairer.mend(self.clock.wrong[candidate.model.digest])
                found = self._checked(mended) if mended is not None else None
            if found is not None and self.is_better(found):
                self._archive.proven(found, None)
                return [found]
        return []

    def _checked(self, candidate: Candidate) -> Measured | None:
        found = self.check(candidate)
        self._note_objections([candidate])
        return found

    def is_better(self, item: Measured) -> bool:
        """Whether it reaches the goal: faster beyond the noise, or smaller.

        Where the target needs passes and cannot be timed, the original is no alternative: what runs is better.
        """
        if not self._bench.target.timed and self._bench.target.requires:
            return bool(item.candidate.steps)
        asked_for = all(step.role is not Role.IMPROVE and self._was_asked_for(step) for step in item.candidate.steps)
        return asked_for or self._objective.is_reached(item, self.clock.base, self._original_of(item.candidate))

    def _original_of(self, candidate: Candidate) -> Candidate:
        return self._bench.original if candidate.recast is None else comparable_original(self._bench, candidate)

    def _was_asked_for(self, step: Step) -> bool:
        asked = self._bench.settings.named_options(step.pass_name) is not None
        return asked or step.pass_name in self._bench.target.requires

    def _rank(self, item: Measured) -> float:
        return self._objective.figure(item, self.clock.base)

    def _as_good(self, item: Measured, best: Measured) -> bool:
        if item is best:
            return True
        if self._objective.goal == "size":
            return False
        if self._rank(item) <= self._rank(best) * _SAME:
            return True
        more = [step for step in best.candidate.steps if step not in item.candidate.steps]
        fits = all(step in best.candidate.steps for step in item.candidate.steps)
        return fits and self._only_makes_way(more) and self._rank(item) <= self._rank(best) * _NEEDED

    def _only_what_was_asked_for(self, candidate: Candidate) -> list[Candidate]:
        """The chain that is delivered where nothing else helps: what the user asked for, and no more."""
        asked = [step for step in candidate.steps if step.role is not Role.IMPROVE and self._was_asked_for(step)]
        found = self._rebuild(asked) if asked and len(asked) < len(candidate.steps) else None
        return [found] if found is not None else []

    def _only_makes_way(self, steps: Sequence[Step]) -> bool:
        """Whether nothing of this is more than making way for something that is not there; True for no step at all."""
        return all(step.role is Role.ENABLE and not self._was_asked_for(step) for step in steps)

    def _shorter(self, candidate: Candidate) -> list[Candidate]:
        """The chain without each step that has not shown its worth, as far as the steps after it still apply.

        What makes way and can go stays out of the shorter chains that follow: nothing needs it.
        """
        found, steps = [], list(candidate.steps)
        deadline = time.monotonic() + _SHORTER_S
        for place, step in reversed(list(enumerate(candidate.steps))):
            if time.monotonic() + self._took(steps) > deadline:
                break
            if len(steps) > 1 and self._is_doubtful(candidate.steps[: place + 1]) and not self._was_asked_for(step):
                shorter = self._rebuild([other for other in steps if other is not step])
                if shorter is not None:
                    found.append(shorter)
                    steps = list(shorter.steps) if step.role is Role.ENABLE else steps
        return found

    def _took(self, steps: Sequence[Step]) -> float:
        """Seconds that applying these steps took before, the longest of each pass."""
        names = {step.pass_name for step in steps}
        longest = dict.fromkeys(names, 0.0)
        for attempt in self._journal.attempts:
            if attempt.step.pass_name in names:
                longest[attempt.step.pass_name] = max(longest[attempt.step.pass_name], attempt.seconds)
        return sum(longest.values())

    def _is_doubtful(self, steps: tuple[Step, ...]) -> bool:
        """Whether the last of these steps only makes way, or was no faster than the chain without it."""
        if steps[-1].role is Role.ENABLE:
            return True
        attempt = self._journal.find_chain(steps)
        if attempt is None or attempt.ratio is None or attempt.parent_ratio is None:
            return False
        return attempt.ratio >= attempt.parent_ratio * FASTER

    def _rebuild(self, steps: Sequence[Step]) -> Candidate | None:
        return self._chains.apply(steps)
