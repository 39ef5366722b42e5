"""What a search holds: candidates, what was tried, what the clock said."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from optim._engine.gate.budget import Objection
from optim._engine.gate.drift import NO_DRIFT, Drift, OutputComparison, worst_drift
from optim._engine.gate.max_loss import TaskFigure
from optim._engine.goals.calls import Percentiles, Throughput
from optim._engine.jobs.start_up import Ready
from optim._engine.plugins.offers import OfferedPass
from optim._engine.search.taste import BUSY
from optim._engine.sources.evidence import SourceDrift
from optim.after_run import StepBlame
from optim.goal import ROUNDS_FOR_95, Amount, GenerationTimes, Ratio
from optim.model import Model
from optim.passes import Interface, Role, Stage

StepKey = tuple[str, str]
"""A step as it is called in a chain: its pass, and its options as text."""

ChainKey = tuple[StepKey, ...]
"""A chain as it is called: the target where that is not the baseline's, then its steps."""


class StepStatus(StrEnum):
    """What became of an attempt."""

    KEPT = "kept"
    DROPPED = "dropped"
    NOT_APPLICABLE = "not-applicable"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Step:
    """One pass with its options, as part of a chain."""

    stage: Stage
    pass_name: str
    plugin: str
    options: dict[str, Any]
    role: Role
    lossy: bool
    session_only: bool = False

    @property
    def key(self) -> StepKey:
        """What it is called in a chain: the same pass with the same options is the same step."""
        return self.pass_name, repr(sorted(self.options.items()))


@dataclass(frozen=True, slots=True)
class Candidate:
    """A model made by a chain of steps from the original; the original itself has none.

    Attributes:
        model: with its session settings.
        steps: oldest first; empty for the original.
        interfaces: of the steps that changed inputs or outputs.
        drift: to the original on the explored samples.
        size_bytes: once delivered.
        task: the task metric, where it was measured.
        recast: the step that changed what goes in and comes out; None where no step did.
        given: the model that this step was given.
        target: name of the target that it runs on; empty on the baseline, where the original is run.
    """

    model: Model
    size_bytes: int
    steps: tuple[Step, ...] = ()
    interfaces: tuple[Interface, ...] = ()
    drift: Drift = NO_DRIFT
    task: TaskFigure | None = None
    recast: Step | None = None
    given: Model | None = None
    target: str = ""

    @property
    def digest(self) -> str:
        """Digest of the model."""
        return self.model.digest

    @property
    def is_original(self) -> bool:
        """Whether it is what the user has: no step was done, and it runs where the baseline does."""
        return not self.steps and not self.target

    @property
    def is_lossy(self) -> bool:
        """Whether the user's budget is what it is held to."""
        return any(step.lossy for step in self.steps)

    def after(self, step: Step, model: Model, size_bytes: int, interface: Interface | None) -> Candidate:
        """The candidate with one more step."""
        interfaces = (*self.interfaces, interface) if interface else self.interfaces
        recasts = interface is not None and bool(interface.raw)
        recast, given = (step, self.model) if recasts else (self.recast, self.given)
        longer = replace(self, model=model, size_bytes=size_bytes, steps=(*self.steps, step), interfaces=interfaces)
        return replace(longer, recast=recast, given=given)

    def compared(self, ready: Ready) -> Candidate:
        """Returns the candidate with its drift and its metric as a lane found them."""
        drift = worst_drift(ready.comparisons) if ready.comparisons else self.drift
        return replace(self, drift=drift, task=ready.task or self.task)


@dataclass(frozen=True, slots=True)
class Application:
    """What is tried: one pass, with its options, on one candidate."""

    candidate: Candidate
    offered: OfferedPass
    options: dict[str, Any]


@dataclass
class Attempt:
    """One pass with one set of options tried on one chain: a row of the report.

    Attributes:
        step: what was tried; its options are empty where the pass never proposed any.
        on: names of the passes before it in the chain.
        status: decided at the latest when the search ends.
        reason: one sentence.
        ratio: latency to the original's, the best over the session settings tried with it.
        parent_ratio: the same of the chain without it.
        drift: on the samples it was compared on last.
        seconds: spent on it, its races excluded.
        counts: what the pass says happened.
        notes: what the pass says.
        task: the task metric, on the samples it was measured on last.
        low: lower end of the 95 % interval of the ratio; of fewer than :data:`ROUNDS_FOR_95` rounds the least ratio.
        high: upper end; of fewer rounds the greatest ratio.
        rounds: that ``ratio`` rests on.
        size_bytes: of the model after it, once delivered.
        out_of_time: whether it was not tried, or not to the end, for want of time.
        beyond_budget: whether it was dropped because its drift or its loss is more than the user accepts.
        behind: the steps before it, as they are called in a chain.
        peak_memory_bytes: the least that opening and running the model after it took; 0 where nobody looked.
        not_here: whether it was not tried for a reason that has to do with this machine and what is installed, and not
            with what was found.
        printed: what the pass printed.
        trace: of the exception that it ended with.
        broke: whether the pass's own code broke: with an exception that is no diagnosis, or a crash of its process.
        unrepaired: why it was not repaired, where that was looked into; it follows the reason.
        goal_ratio: what the goal's own clock found of the model after it, to the original's, the least seen; None where
            the goal has none.
        target: name of the target that it was tried for; empty where the run has one only.
        objected: whether the gate dropped it: its outputs are not right.
        blame: the nodes that make it wrong, where that was looked into.
        unchanged: whether the pass ran, and found nothing to change.
        proven: whether ``ratio`` is that of fresh rounds at the end, which a quick look never replaces.
    """

    step: Step
    on: tuple[str, ...]
    status: StepStatus = StepStatus.SKIPPED
    reason: str = ""
    ratio: float | None = None
    parent_ratio: float | None = None
    drift: Drift | None = None
    seconds: float = 0.0
    counts: dict[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    task: TaskFigure | None = None
    low: float | None = None
    high: float | None = None
    rounds: int = ROUNDS_FOR_95
    size_bytes: int | None = None
    out_of_time: bool = False
    beyond_budget: bool = False
    behind: ChainKey = ()
    peak_memory_bytes: int = 0
    not_here: bool = False
    printed: tuple[str, ...] = ()
    trace: str = ""
    broke: bool = False
    unrepaired: str = ""
    goal_ratio: float | None = None
    target: str = ""
    objected: bool = False
    blame: StepBlame | None = None
    unchanged: bool = False
    proven: bool = False

    @property
    def timing(self) -> Ratio | None:
        """The ratio with its interval; None if it was not timed."""
        return _timing(self)

    @property
    def why(self) -> str:
        """The reason, why it was not repaired, and what is to blame."""
        blamed = f"blamed: {self.blame.summary}" if self.blame and self.blame.summary else ""
        parts = [self.reason, self.unrepaired, blamed]
        return "; ".join(filter(None, parts)) if self.reason else ""

    @property
    def chain(self) -> ChainKey:
        """The whole chain that it ends."""
        return (*self.behind, self.step.key)

    @property
    def was_no_faster(self) -> bool:
        """Whether the step was no faster than the chain without it."""
        return self.ratio is not None and self.parent_ratio is not None and self.ratio >= self.parent_ratio

    def note(self, measured: Measured, *, proven: bool = False) -> None:
        """Keep what the clock said of the chain."""
        self.ratio, self.low, self.high, self.rounds = measured.ratio, measured.low, measured.high, measured.rounds
        self.proven = proven

    def settle(self, status: StepStatus, reason: str) -> None:
        """Decide what became of it."""
        self.status, self.reason = status, reason
        self.beyond_budget = self.objected = self.out_of_time = False

    def run_out(self, reason: str) -> None:
        """Leave it for want of time: nothing speaks against it."""
        self.settle(StepStatus.SKIPPED, reason)
        self.out_of_time = True

    def drop(self, objection: Objection, seen: str = "") -> None:
        """Drop it for an objection of the gate; ``seen`` says where that was seen."""
        self.settle(StepStatus.DROPPED, f"{seen}{objection}")
        self.beyond_budget, self.objected = objection.beyond_budget, True


@dataclass(frozen=True, slots=True)
class LaneResult:
    """What became of one lane of a race.

    Attributes:
        failure: why it has no figures, or empty.
        ready: what it said before the race.
        ratio: to the base; None for a lane that failed or was not admitted.
        latency_ms: that of the base (median over rounds, geometric mean over samples) times the ratio.
        latency_ci_ms: 95 % interval of the lane's own times, those of its rounds; of fewer than
            :data:`ROUNDS_FOR_95` rounds the least and the greatest.
        sample_ms: the same for each timed sample.
        sample_ratio: of each timed sample.
        disturbed: share of the race's rounds in which other processes used the machine, 0..1.
        open_s: of the base: how long a lane of this race took to open on average, in seconds.
        cut_short: of the base: whether the race ended because the time of the run was over.
        out_of_time: whether it has no figures because that time was over: nothing speaks against it.
        goal: what the goal's own clock found, to the base's; None where the goal has none.
        sample_calls: how long calls took, of each timed sample.
        throughput: what it did, where that is the goal.
        generation: what the time of an answer is made of, where that is the goal.
        late: what it was doing when that time, or a limit of its backend's calls, was over before it had come back.
        round_ratios: the ratio of each round that counts, for a trace.
        doubt: what the device's clock said of a run and what the wall's did, in seconds, if they contradict each other:
            then the race was timed by the wall's.
        round_s: seconds that its part of a round took on average, untimed runs included.
        processor_s: of its process, opening included.
    """

    failure: str = ""
    ready: Ready | None = None
    ratio: Ratio | None = None
    latency_ms: float = 0.0
    latency_ci_ms: tuple[float, float] = (0.0, 0.0)
    sample_ms: tuple[float, ...] = ()
    sample_ratio: tuple[Ratio, ...] = ()
    disturbed: float = 0.0
    open_s: float = 0.0
    cut_short: bool = False
    out_of_time: bool = False
    goal: Ratio | None = None
    sample_calls: tuple[Percentiles, ...] = ()
    throughput: Throughput | None = None
    generation: GenerationTimes | None = None
    late: str = ""
    round_ratios: tuple[float, ...] = ()
    doubt: tuple[float, float] | None = None
    round_s: float = 0.0
    processor_s: float = 0.0

    @property
    def latency(self) -> Amount | None:
        """Milliseconds of a call with their interval; None if it was not timed."""
        return _latency(self.latency_ms, self.latency_ci_ms, self.ratio.rounds) if self.ratio is not None else None


@dataclass(frozen=True, slots=True)
class Measured:
    """A candidate with what the clock said of it.

    Attributes:
        candidate: with the session settings it was timed with.
        ratio: latency to the original's; None on a target where time means nothing.
        low: lower end of the 95 % interval; of fewer than :data:`ROUNDS_FOR_95` rounds the least ratio.
        high: upper end; of fewer rounds the greatest ratio.
        latency_ms: median.
        peak_memory_bytes: of opening and running it.
        comparisons: with the original, on the explored samples.
        source: how far it is from the source that was exported; None where it was not held against one.
        goal: what the goal's own clock found, to the original's; None where the goal has none.
        generation: what the time of an answer is made of, where that is the goal.
        disturbed: share of rounds in which other processes used the machine, 0..1.
        rounds: that ``ratio`` rests on.
        latency_ci_ms: 95 % interval of its own times; of fewer rounds the least and the greatest.
        proven: whether these are figures of fresh rounds and all samples.
        within: whether it keeps the budget.
        number: its place on the front, the fastest first; 0 beside it.
        lane: the clock's figures, shape by shape, of what is proven.
    """

    candidate: Candidate
    ratio: float | None
    low: float | None = None
    high: float | None = None
    latency_ms: float | None = None
    peak_memory_bytes: int = 0
    comparisons: tuple[OutputComparison, ...] = ()
    source: SourceDrift | None = None
    goal: Ratio | None = None
    generation: GenerationTimes | None = None
    disturbed: float = 0.0
    rounds: int = ROUNDS_FOR_95
    latency_ci_ms: tuple[float, float] = (0.0, 0.0)
    proven: bool = False
    within: bool = True
    number: int = 0
    lane: LaneResult | None = None

    @property
    def digest(self) -> str:
        """Digest of the model."""
        return self.candidate.digest

    @property
    def timing(self) -> Ratio | None:
        """The ratio with its interval; None if it was not timed."""
        return _timing(self)

    @property
    def latency(self) -> Amount | None:
        """Milliseconds of a call with their interval; None if it was not timed."""
        return _latency(self.latency_ms or 0.0, self.latency_ci_ms, self.rounds)

    @property
    def is_disturbed(self) -> bool:
        """Whether other programs used the machine in most of its rounds."""
        return self.disturbed > BUSY

    @classmethod
    def of(cls, candidate: Candidate, result: LaneResult) -> Measured:
        """The figures of a lane; the drift is that of the samples compared there."""
        assert result.ready is not None
        return cls(candidate.compared(result.ready), None, comparisons=result.ready.comparisons).timed(result)

    def timed(self, result: LaneResult) -> Measured:
        """Returns the same with the clock's figures of a lane; unchanged where it has none."""
        if result.ratio is None or result.ready is None:
            return self
        return replace(
            self,
            ratio=result.ratio.value,
            low=result.ratio.low,
            high=result.ratio.high,
            latency_ms=result.latency_ms,
            peak_memory_bytes=max(self.peak_memory_bytes, result.ready.peak_memory_bytes),
            goal=result.goal,
            generation=result.generation,
            disturbed=result.disturbed,
            rounds=result.ratio.rounds,
            latency_ci_ms=result.latency_ci_ms,
        )


def _timing(found: Measured | Attempt) -> Ratio | None:
    if found.ratio is None or found.low is None or found.high is None:
        return None
    return Ratio(found.ratio, found.low, found.high, found.rounds)


def _latency(value: float, interval: tuple[float, float], rounds: int) -> Amount | None:
    if not value:
        return None
    low, high = interval if interval[1] else (value, value)
    return Amount(value, min(low, value), max(high, value), rounds >= ROUNDS_FOR_95 and bool(interval[1]))


def inaccuracy(item: Measured) -> float:
    """How far off it is; what rounding explains is not far off."""
    task = item.candidate.task
    if task is not None:
        return max(0.0, task.loss) + 1e-9
    return item.candidate.drift.relative_error if item.candidate.is_lossy else 0.0


def unique(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Each model once, in order; of several candidates with one model the first."""
    found: dict[str, Candidate] = {}
    for candidate in candidates:
        found.setdefault(candidate.digest, candidate)
    return list(found.values())
