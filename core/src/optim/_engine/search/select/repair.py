"""Repair: a lossy step leaves some more nodes in float, so that a candidate keeps the budget.

While exploring, the closest candidate of a pass without one that holds is repaired. At the end, a candidate is repaired
that held on the samples explored and breaks the budget on all of them: what is faster than anything that holds is worth
more than to be dropped. Its last lossy step leaves more nodes in float, and the steps after it are applied again.
With goal accuracy, what keeps within the bounds is brought nearer to the original in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from optim._engine.gate.drift import worst_drift
from optim._engine.jobs.offer import Proposal
from optim._engine.repair.choose import MOST_WORK_KEPT, PART_FOR_THE_METRIC, REPAIRABLE, MeasuredSet, Repair, why_none
from optim._engine.repair.costs import NodeCost
from optim._engine.search.board import NOT_TRIED, Applied, Board
from optim._engine.search.deadline import GRACE_S, LATER, Deadline
from optim._engine.search.plan import Planned
from optim._engine.search.rows import step_of
from optim._engine.search.select.chains import Chains
from optim._engine.search.state import Application, Attempt, Candidate, Step, StepKey
from optim._engine.search.taste import TURN
from optim._engine.search.workbench import REPAIR_SAMPLES, Workbench
from optim.goal import Basis
from optim.jobs.process import WorkerFailed
from optim.jobs.wire import from_wire

MARGIN = 0.97
"""Share of what is allowed that a repair aims at where another drift than the one it measures decides: that of further
samples, from the source, or under other session settings."""

_LEAST = 3.0
"""Times what a candidate took, for its repair: with less, 12 of 12 in recorded runs found nothing. It is replayed, and
applied for each set of nodes."""

_NO_NEARER = 0.9
"""Of a drift: a tenth less is not worth a repair."""


_MOST_EVALUATIONS = 40
"""Evaluations of one repair: more find a smaller set of nodes, where there is time for them. Where size is the goal, no
race waits for that time, and each node less in the set is a smaller model: time alone bounds them."""


@dataclass(frozen=True, slots=True)
class Guess:
    """A proposal of a pass for a chain, and what came of it.

    Attributes:
        planned: the pass.
        parent: the chain.
        attempt: the row.
        others: what else the pass proposes there.
        tried: what the job said.
    """

    planned: Planned
    parent: Candidate
    attempt: Attempt
    others: tuple[Proposal, ...] = ()
    tried: Applied = NOT_TRIED

    @property
    def application(self) -> Application:
        """The step and the chain that a job tries."""
        return Application(self.parent, self.planned.offered, self.attempt.step.options)

    @property
    def key(self) -> tuple[str, StepKey]:
        """What it is called: the model that the pass was given, and the step."""
        return self.parent.digest, self.attempt.step.key

    @property
    def drift(self) -> float:
        """How far off it is."""
        return self.attempt.drift.relative_error if self.attempt.drift else 0.0

    @property
    def made_bytes(self) -> int:
        """The size of what the pass made: a repair leaves no less."""
        return self.tried.answer.size_bytes if self.tried.answer is not None else 0


class Repairs:
    """Repairs candidates of one search.

    Args:
        bench: tries and repairs them.
        board: gets a row for each that is tried.
        time: for repairs.
        chains: applies the steps after a repaired one again.
        judge: returns the chain with a step if it holds: :meth:`Expander.judge`.

    Attributes:
        near: what may be repaired with more time.
        repaired_as: the options that repairs found, by the step that broke the budget.
    """

    def __init__(
        self, bench: Workbench, board: Board, time: Deadline, chains: Chains, judge: Callable[[Guess], Candidate | None]
    ) -> None:
        self._bench = bench
        self._budget = board.budget
        self._board = board
        self._time = time
        self._judge = judge
        self._chains = chains
        self._node_costs: dict[str, dict[str, NodeCost]] = {}
        self.repaired_as: dict[StepKey, dict[str, Any]] = {}
        self._found: dict[tuple[str, StepKey], Candidate | None] = {}
        self.near: dict[tuple[str, StepKey], Guess] = {}

    def aim(self, tried: Applied) -> float:
        """Returns the drift that a repair aims at while exploring.

        Where only the drift from the source is beyond the budget, it is brought down by as much; where the task metric
        is what was missed, by a part of what there is.
        """
        if tried.answer is None:
            return self._budget.limit(lossy=True)
        drift = worst_drift(tried.answer.comparisons).relative_error
        if drift > self._budget.limit(lossy=True):
            return self._budget.repair_limit
        times = self._board.of_model(tried.answer.result.model).times_too_far
        return drift / times * MARGIN if times > 1 else drift * PART_FOR_THE_METRIC

    def is_near(self, one: Guess) -> bool:
        """Whether it is beyond the budget by so little that it may be repaired, or some nodes overflow."""
        answer = one.tried.answer
        if "keep" not in one.attempt.step.options or answer is None or not answer.comparisons:
            return False
        wrong = [comparison for comparison in answer.comparisons if comparison.problem]
        if wrong:
            return all(comparison.overflowed for comparison in wrong)
        limit = self.aim(one.tried)
        return limit < worst_drift(answer.comparisons).relative_error < REPAIRABLE * limit

    def closest(self, tried: Sequence[Guess]) -> Guess | None:
        """Returns the closest of the candidates that broke the budget and can be repaired."""
        return min(filter(self.is_near, tried), key=lambda one: one.drift, default=None)

    def leave(self, one: Guess) -> None:
        """Note what may be repaired with more time."""
        self.near[one.key] = one

    def repair(self, one: Guess) -> Candidate | None:
        """Returns a candidate beyond the budget with nodes left in float, if it holds then; once for each."""
        if one.key not in self._found:
            self._found[one.key] = self._repair(one)
            self.leave(one)
        if self._found[one.key] is not None:
            self.near.pop(one.key, None)
        return self._found[one.key]

    def repair_on(self, is_wanted: Callable[[Guess], bool]) -> Candidate | None:
        """Returns what a repair finds in all the time but the least proof, of what was smallest before it first."""
        with self._time.lending():
            for one in sorted(self.near.values(), key=lambda one: one.made_bytes):
                if self._time.before(LATER) <= 0:
                    break
                if is_wanted(one):
                    self._found.pop(one.key, None)
                    one.attempt.unrepaired = ""
                    if (found := self.repair(one)) is not None:
                        return found
        return None

    def _repair(self, one: Guess) -> Candidate | None:
        """Tries the candidate with as many nodes left in float as the budget takes; returns it if it holds."""
        broken = one.attempt
        within_s = TURN * self._time.before(LATER), self._time.most_for_repair(broken.seconds)
        step = self._find(one.application, one.tried, broken, self.aim(one.tried), within_s)
        if step is None:
            return None
        self.repaired_as[broken.step.key] = step.options
        again = Guess(one.planned, one.parent, self._board.open(step, one.parent))
        named_s = self._time.for_candidate(named=True) if one.planned.forced else 0.0
        seconds = max(named_s, self._time.for_reapplying)
        return self._judge(replace(again, tried=self._bench.try_one(again.application, seconds)))

    def _find(
        self,
        trial: Application,
        tried: Applied,
        row: Attempt,
        limit: float,
        within_s: tuple[float, float],
        why: str = "",
    ) -> Step | None:
        """Returns the step with more nodes left alone, which has a row; else the row of the candidate says why not.

        Args:
            trial: the candidate, whose last step it is.
            tried: what came of it.
            row: of the candidate.
            limit: the drift to aim at.
            within_s: seconds to begin further sets in, and at most.
            why: what rows say that it is done for.
        """
        kept, began = trial.offered.over_models.kept, self._time.now()
        not_repaired = f"not repaired {why}".rstrip()
        if min(within_s) <= (0.0 if self._time.must else _LEAST * row.seconds):
            row.unrepaired = f"{not_repaired}: no search time left"
            return None
        measured: list[MeasuredSet] = []
        try:
            repair, reason = self._measure(trial, tried, limit, within_s, measured), ""
        except WorkerFailed as failed:
            error = failed.error
            repair, reason = None, f"{error.what}: {error.cause}" if error else failed.reason
        if repair is None or repair.work > MOST_WORK_KEPT:
            if repair is not None:
                reason = f"{repair.work:.0%} of the work would stay {kept}"
            reason = reason or why_none(measured, limit, kept, self._time.now() - began)
            row.unrepaired = f"{not_repaired}: {reason}"
            return None
        if not (repair.keep or repair.finer):
            return None
        # a node that is left alone is in no other precision
        options = {**row.step.options, "keep": [*row.step.options["keep"], *repair.keep]}
        if "finer" in options:
            options["finer"] = [*(name for name in options["finer"] if name not in repair.keep), *repair.finer]
        step = step_of(trial.offered, options)
        self._board.open(step, trial.candidate).notes = (f"{why} {repair.text(kept)}".lstrip(),)
        return step

    def _measure(
        self,
        trial: Application,
        tried: Applied,
        limit: float,
        within_s: tuple[float, float],
        measured: list[MeasuredSet],
    ) -> Repair | None:
        """Returns the nodes that a candidate must leave alone, if a set of them holds; ``measured`` gets all sets.

        Raises:
            WorkerFailed: the repair failed before it had measured a set that holds.
            OptimError[disk-full]: nothing that is tried next would come to anything either.
        """
        from optim._engine.repair import repair_job  # what a run from the cache needs none of

        assert tried.answer is not None
        bench, (seconds, most_s) = self._bench, within_s
        whole = worst_drift(tried.answer.comparisons).relative_error
        samples = bench.prepared.compared[:REPAIR_SAMPLES]
        key = bench.keys.repair(trial, limit, samples)
        known = bench.runner.known(key, repair_job.Answer)
        if known is not None:
            return known.repair
        bench.say(f"repairing {trial.offered.name}: drift {whole:.3g}, {limit:.3g} allowed")
        others = sorted((name, value) for name, value in trial.options.items() if name not in ("keep", "finer"))
        learned = self._node_costs.setdefault(f"{trial.offered.name} {others!r}", {})  # alike whichever nodes are left
        most = None if bench.goal.basis is Basis.SIZE else _MOST_EVALUATIONS
        asked = bench.candidate_request(trial, samples)
        request = repair_job.Request(asked, whole, limit, most, min(seconds, most_s), dict(learned))
        held: list[Repair] = []

        def note(event: Mapping[str, Any]) -> None:
            if event["event"] == repair_job.HOLDS:
                held.append(from_wire(Repair, event["repair"]))
            elif event["event"] == repair_job.COSTS:
                learned.update(from_wire(dict[str, NodeCost], event["costs"]))
            elif event["event"] == repair_job.MEASURED:
                measured.append(MeasuredSet(event["keep"], event["of"], event["drift"]))

        evaluation_s = max(GRACE_S, 2 * tried.seconds)  # the one that was begun in time
        whole_s = min(seconds + evaluation_s, most_s)
        try:
            answer = bench.runner.call(repair_job.JOB, request, timeout_s=whole_s, on_event=note)
        except WorkerFailed as failed:
            if failed.error and failed.error.reference == "disk-full":
                raise failed.error from failed
            bench.restore(trial.candidate)
            if not held and failed.kind != "timeout":
                raise
            return held[-1] if held else None
        if answer.repair is not None and not answer.repair.rough:  # with more time another run may find a better one
            bench.runner.keep(key, answer)
        return answer.repair

    def on_all_samples(self, candidate: Candidate, most_s: float = math.inf) -> Candidate | None:
        """Leaves more nodes of a candidate in float, at the end of a search; the result is not measured yet.

        Args:
            candidate: with its drift, and its metric, on all samples.
            most_s: to begin further sets in, at most.

        Returns:
            None where its steps cannot leave nodes alone, or where nothing was found in time; the report says so.
        """
        limit, held = self._budget.limit(lossy=True), self._budget.held(candidate.drift)
        seconds = min(TURN * self._time.before_last_race, most_s)
        if held > REPAIRABLE * limit or seconds <= 0:
            return None
        aim = candidate.drift.relative_error * (PART_FOR_THE_METRIC if held <= limit else limit * MARGIN / held)
        return self._repaired(candidate, aim, seconds, "for all samples")

    def nearer(self, candidate: Candidate, fits: Callable[[Candidate], bool]) -> list[Candidate]:
        """Returns what repairs make of a candidate that fits and drifts less, each less than the one before it.

        The drift is halved as long as the result fits. After one that does not, the next repair aims between the two.
        """
        found: list[Candidate] = []
        drift, beyond = candidate.drift.relative_error, 0.0
        while (left_s := self._time.before(LATER)) > 0:
            aim = math.sqrt(beyond * drift) if beyond else drift / 2
            if aim >= _NO_NEARER * drift:
                break
            new = self._repaired(candidate, aim, left_s, "for less drift within the bounds")
            if new is not None and new.drift.relative_error < drift and fits(new):
                found.append(new)
                drift = new.drift.relative_error
            else:
                beyond = aim
        return found

    def _repaired(self, candidate: Candidate, aim: float, seconds: float, why: str) -> Candidate | None:
        """The chain with more nodes left in float by its last lossy step, and the steps after that applied again.

        Args:
            candidate: the chain.
            aim: the drift that it may have.
            seconds: to begin further sets in.
            why: what rows say that it is done for.
        """
        lossy = (i for i, step in enumerate(candidate.steps) if step.lossy and "keep" in step.options)
        place = max(lossy, default=None)
        before = self._chains.apply(candidate.steps[:place]) if place is not None else None
        if place is None or before is None:
            return None
        step = candidate.steps[place]
        trial = self._bench.application(step, before)
        tried = self._bench.try_one(trial, self._time.for_reapplying)
        if tried.answer is None:
            return None
        row, within_s = self._board.open(step, before), (seconds, self._time.most_for_repair(tried.seconds))
        repaired = self._find(trial, tried, row, aim, within_s, why)
        if repaired is None:
            return None
        count = len(repaired.options["keep"])
        nodes = "1 node" if count == 1 else f"{count} nodes"
        row.notes = (*row.notes, f"repaired {why}, with {nodes} left {trial.offered.over_models.kept}")
        return self._chains.apply([repaired, *candidate.steps[place + 1 :]], before)
