"""The board of a search: what it looks for, a record of each model, their order, and a row of the report each try."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from optim._engine.gate.budget import Budget, Objection
from optim._engine.gate.drift import worst_drift
from optim._engine.jobs.candidate import Answer
from optim._engine.search.front import points_of, tie_of
from optim._engine.search.objective import Objective
from optim._engine.search.plan import Planned
from optim._engine.search.rows import broken_bound, missing_rows, step_of, why_dropped, why_kept
from optim._engine.search.state import (
    ITSELF,
    Attempt,
    Candidate,
    ChainKey,
    LaneResult,
    Measured,
    Step,
    StepStatus,
    chain_of,
)
from optim._engine.search.taste import SURPRISE
from optim._engine.sources.exported import SourceDrift
from optim.goal import Basis
from optim.model import Model
from optim.passes import Stage
from optim.target import Target

_SAME_SIZE = 0.03
"""Sizes that differ by less go by the order in which passes offer them: more hides what is really smaller."""

_NOT_PROVEN = "the run ended before the final check of it; give more with --search-seconds"


@dataclass(frozen=True, slots=True)
class Applied:
    """A candidate job's answer, or why there is none.

    Attributes:
        answer: None where it failed.
        failure: why, one sentence.
        ran_out: whether it was stopped for its time.
        printed: the end of what a failing one printed.
        trace: of the exception that ended it.
        broke: whether the pass's own code broke.
    """

    answer: Answer | None
    failure: str
    seconds: float
    ran_out: bool = False
    printed: tuple[str, ...] = ()
    trace: str = ""
    broke: bool = False


NOT_TRIED = Applied(None, "", 0.0)


@dataclass
class Record:
    """What a search knows of one model.

    Attributes:
        objection: why it does not hold.
        out_of_time: whether its last race was over before it had a figure.
        broken: the candidate as it was compared, where it ran and did not hold.
        holds: whether its graph kept within the budget when it was looked at last; None where it was not.
        missed: the candidate as the gate saw it last, where that was beyond the budget.
        ratios: its latency ratios, one of each race.
        hoped: the ratio to expect of it by the goal, before the goal's clock has one.
        result: all that its lane said, of both races where it was timed twice.
        base: the original in the same race.
        is_late: whether it had not come back once when a race was over: it is not raced again.
        source: how far it is from the source that was exported.
        source_objection: why it is not what that source computes.
        point: its best figures; None where it has none, or the gate refused it since.
    """

    model: Model
    objection: Objection = field(default_factory=Objection)
    out_of_time: bool = False
    broken: Candidate | None = None
    holds: bool | None = None
    missed: Candidate | None = None
    ratios: list[float] = field(default_factory=list)
    hoped: float | None = None
    result: LaneResult | None = None
    base: LaneResult | None = None
    is_late: bool = False
    source: SourceDrift | None = None
    source_objection: Objection = field(default_factory=Objection)
    point: Measured | None = None

    @property
    def times_too_far(self) -> float:
        """By which factor it is further from its source than it may be; 1 where it is not, or was not looked at."""
        if self.source is None or not self.source_objection or not math.isfinite(self.source.drift.relative_error):
            return 1.0
        return max(1.0, self.source.drift.relative_error / self.source.limit)


class Board:
    """The records of a search on one target by the digest of their model, and its rows in the order of attempts.

    Attributes:
        original: what all else is held against, on the target.
        target: where candidates run.
        objective: what is made small.
        budget: what the user accepts.
        required: names of the passes that must hold: the user named them, or the target requires them.
        attempts: the rows.
    """

    def __init__(
        self, original: Candidate, target: Target, objective: Objective, budget: Budget, required: Iterable[str] = ()
    ) -> None:
        self.original, self.target = original, target
        self.objective, self.budget = objective, budget
        self.required = frozenset(required)
        self._records: dict[str, Record] = {}
        self.attempts: list[Attempt] = []
        self._by_chain: dict[ChainKey, Attempt] = {}
        self._models: dict[ChainKey, Model] = {}

    # records

    def __getitem__(self, candidate: Candidate) -> Record:
        return self.of_model(candidate.model)

    def of_model(self, model: Model) -> Record:
        """The record of a model; an empty one where nothing is known of it."""
        return self._records.setdefault(model.digest, Record(model))

    def best_of_graph(self, candidate: Candidate) -> float:
        """The best ratio of its graph under any session settings; infinite where none was."""
        return min((ratio for one in self._of_graph(candidate) for ratio in one.ratios), default=math.inf)

    def _of_graph(self, candidate: Candidate) -> list[Record]:
        return [record for record in self._records.values() if record.model.path == candidate.model.path]

    def explored(self, found: Iterable[Measured]) -> None:
        """Keeps the figures of a quick look."""
        for item in found:
            known = self[item.candidate].point
            if not item.candidate.is_original and (known is None or not known.proven):
                self._keep(item)

    def proven(self, item: Measured) -> None:
        """Keeps the figures of fresh rounds and all samples."""
        if not item.candidate.is_original:
            self._keep(replace(item, proven=True))

    def aside(self, item: Measured) -> None:
        """Keeps the figures of the nearest point beyond the budget."""
        self._keep(replace(item, proven=True, within=False))

    def _keep(self, point: Measured) -> None:
        record = self[point.candidate]
        if record.point is None:  # records with figures stand in the order in which these came
            self._records[point.digest] = self._records.pop(point.digest)
        record.point = point

    def judged(self, candidate: Candidate, objection: Objection) -> None:
        """Notes whether a lossy candidate held, with its drift and its metric; the last word counts."""
        if not candidate.is_lossy:
            return
        record = self[candidate]
        for one in self._of_graph(candidate):
            one.holds = not objection
        if objection:
            record.point = None
            record.missed = candidate if math.isfinite(candidate.drift.relative_error) else record.missed

    def note_objections(self, candidates: Sequence[Candidate]) -> None:
        """Notes the candidates that do not hold on all samples, and those that there was no time to prove."""
        for candidate in candidates:
            record, attempt = self[candidate], self.find(candidate)
            if record.out_of_time and attempt is not None and not record.objection:
                attempt.run_out(_NOT_PROVEN)
            if not record.objection:
                continue
            for row in (attempt, self._without_settings(candidate)):
                if row is not None:
                    row.drop(record.objection, "" if record.source_objection else "on all samples: ")
            if record.broken is not None:
                self.judged(record.broken, record.objection)

    def _without_settings(self, candidate: Candidate) -> Attempt | None:
        """Returns the row of the same graph without settings, if that is wrong in sizes that no sample has.

        There no settings help, and "the final model is not better with it" would be said of a fast wrong graph.
        """
        result = self[candidate].result
        unseen = result.ready.unseen if result is not None and result.ready is not None else ()
        steps = candidate.steps
        while steps and steps[-1].session_only and not steps[-1].lossy:
            steps = steps[:-1]
        return self.find_chain(steps) if self.budget.unseen_objection(unseen, candidate.is_lossy) else None

    def dismiss(self, candidate: Candidate) -> None:
        """Forget the figures of a model of which the verdict found that it is no result."""
        self[candidate].point = None

    @property
    def lossy_held(self) -> bool:
        """Whether any lossy candidate kept within the budget, as far as it was looked at."""
        return any(record.holds for record in self._records.values())

    def held(self) -> list[Measured]:
        """Returns what a quick look found within the budget and nothing has proven yet."""
        return [
            point
            for point in self.found
            if not point.proven and self.required <= {step.pass_name for step in point.candidate.steps}
        ]

    def beyond(self, most: int | None = None) -> list[Candidate]:
        """Returns candidates beyond the budget, the one that is by least first, one for each chain of passes."""
        missed = [record.missed for record in self._records.values() if record.missed is not None]
        missed.sort(key=lambda one: (self.budget.excess(one.drift, one.task), len(one.steps)))
        found: dict[tuple[str, ...], Candidate] = {}
        for candidate in missed:
            found.setdefault(tuple(step.pass_name for step in candidate.steps), candidate)
        return list(found.values())[:most]

    @property
    def found(self) -> list[Measured]:
        """Every model that has figures, in the order in which these came."""
        return [record.point for record in self._records.values() if record.point is not None]

    def points(self, delivered: Candidate | None = None) -> list[Measured]:
        """Returns the proven points, numbered along the front; then what was only explored, the fastest first."""
        return points_of(self.found, delivered)

    # order

    def figure(self, item: Measured) -> float:
        """Returns what is made small, or what is hoped of it if it was not timed yet."""
        figure = self.objective.figure(item)
        if self.objective.is_accuracy:
            return figure
        expected = self[item.candidate].hoped
        if expected is not None and (item.ratio is None or math.isinf(figure)):
            doubt = SURPRISE if self.objective.goal.basis is Basis.CLOCK and item.candidate.steps else 1.0
            return doubt * expected * self.objective.figure(Measured(self.original, ITSELF))
        return figure

    def ranked(self, items: Iterable[Measured]) -> list[Measured]:
        """Returns them, the best first: what may keep within the bounds before what breaks one."""
        return sorted(self._by_figure(list(items)), key=lambda item: self.objective.excess(item) > 0)

    def _by_figure(self, items: list[Measured]) -> list[Measured]:
        if self.objective.is_size and not self.target.timed:
            # what cannot be timed goes by size, and by the order in which passes offer it where that is about the same
            smallest = min((item.candidate.size_bytes for item in items), default=1)
            return sorted(items, key=lambda item: int((item.candidate.size_bytes / smallest - 1) / _SAME_SIZE))
        if self.objective.is_size:
            return sorted(items, key=lambda item: (self.figure(item), *tie_of(item)))
        return sorted(items, key=lambda item: (self.figure(item), len(item.candidate.steps)))

    def joined(self, items: Sequence[Measured], others: Iterable[Measured]) -> list[Measured]:
        """Returns them with those of others that are not among them, the best first."""
        there = {item.digest for item in items}
        more = {item.digest: item for item in others if item.digest not in there}
        return self.ranked([*items, *more.values()]) if more else list(items)

    # rows

    def applied(self, attempt: Attempt, on: Candidate, tried: Applied) -> Candidate | None:
        """Notes what came of a step; returns the chain with it, or None where it failed or changed nothing."""
        attempt.printed, attempt.trace, attempt.broke = tried.printed, tried.trace, tried.broke
        attempt.seconds += tried.seconds
        if tried.answer is None:
            attempt.settle(StepStatus.FAILED, tried.failure)
            return None
        result, size_bytes = tried.answer.result, tried.answer.size_bytes
        attempt.counts, attempt.printed = dict(result.counts), result.printed
        attempt.notes = tuple(dict.fromkeys([*attempt.notes, *result.notes]))  # what a first look said is said again
        if not result.changed:
            attempt.unchanged = True
            attempt.settle(StepStatus.NOT_APPLICABLE, "; ".join(result.notes))
            return None
        drift = worst_drift(tried.answer.comparisons) if tried.answer.comparisons else None
        attempt.drift, attempt.task, attempt.size_bytes = drift, tried.answer.task, size_bytes
        longer = on.after(attempt.step, result, size_bytes)
        if all(interface.is_as_before for interface in longer.interfaces):  # both are fed as the original is
            self._models |= {on.chain: on.model, longer.chain: longer.model}
        return replace(longer, drift=drift or longer.drift, task=attempt.task)

    def open(self, step: Step, on: Candidate) -> Attempt:
        """Opens a row; the same step on the same chain again is the same row."""
        chain = (*on.chain, step.key)
        if chain not in self._by_chain:
            self._by_chain[chain] = Attempt(step, on.chain)
            self.attempts.append(self._by_chain[chain])
        return self._by_chain[chain]

    def rows_of_untried(self, passes: Iterable[Planned]) -> list[Attempt]:
        """Opens a row for each pass that has none yet."""
        tried = {attempt.step.pass_name for attempt in self.attempts}
        return [self.open(step_of(one.offered), self.original) for one in passes if one.name not in tried]

    def pair(self, attempt: Attempt) -> tuple[Model, Model] | None:
        """What a step was given and what it made; None where nothing was made, or it is fed in another way."""
        before, after = self._models.get(attempt.behind), self._models.get(attempt.chain)
        return (before, after) if before is not None and after is not None else None

    def find(self, candidate: Candidate) -> Attempt | None:
        """The row of the last step of a chain."""
        return self.find_chain(candidate.steps)

    def find_chain(self, steps: Sequence[Step]) -> Attempt | None:
        """The row of the last of these steps, with the others before it."""
        return self._by_chain.get(chain_of(self.original.target, steps))

    def timed(self, measured: Measured, parent_ratio: float | None) -> None:
        """Notes the best time seen of a chain."""
        attempt = self.find(measured.candidate)
        if attempt is None or measured.ratio is None:
            return
        if attempt.ratio is None or (measured.ratio < attempt.ratio and not attempt.proven):
            attempt.note(measured)
            attempt.size_bytes = measured.candidate.size_bytes
        peaks = [peak for peak in (attempt.peak_memory_bytes, measured.peak_memory_bytes) if peak]
        attempt.peak_memory_bytes = min(peaks, default=0)
        ratios = [attempt.goal_ratio, measured.lane.goal.value if measured.lane.goal else None]
        attempt.goal_ratio = min((one for one in ratios if one is not None), default=None)
        if parent_ratio is not None:
            attempt.parent_ratio = parent_ratio

    def conclude(self, winner: Candidate, best: Measured | None = None, stopped: str = "") -> None:
        """Settles every row that is still open: kept on the winner's chain, else dropped with the reason.

        If ``stopped`` says why nothing was decided, an open row is skipped, and says so.
        """
        whole, goal = winner.chain, self.objective.goal
        for attempt in missing_rows(self.attempts, winner) if winner.target == self.original.target else ():
            self._by_chain[attempt.chain] = attempt
            self.attempts.append(attempt)
        kept = {whole[: i + 1] for i in range(len(whole))}
        if whole in self._by_chain and best is not None:
            self._by_chain[whole].note(best, proven=True)
        for chain, attempt in self._by_chain.items():
            if chain in kept:
                attempt.settle(StepStatus.KEPT, why_kept(attempt, goal))
                if not attempt.proven and attempt.was_no_faster:  # the proof of the chain with it says otherwise
                    attempt.timing = attempt.parent_ratio = None
            elif attempt.status is StepStatus.SKIPPED and not attempt.reason and stopped:
                attempt.settle(StepStatus.SKIPPED, stopped)
            elif attempt.status is StepStatus.SKIPPED and not attempt.reason:
                broken = broken_bound(attempt, self.objective.bounds)
                attempt.settle(StepStatus.DROPPED, broken or why_dropped(attempt, goal, winner, best))
        order = list(Stage)
        self.attempts.sort(key=lambda attempt: order.index(attempt.step.stage))  # first looks are at all stages
