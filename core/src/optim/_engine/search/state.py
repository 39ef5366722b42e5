"""What a search holds: candidates, what was tried, what the clock said."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from optim._engine.gate.budget import Objection, TaskFigure
from optim._engine.gate.drift import NO_DRIFT, Drift, OutputComparison, worst_drift
from optim._engine.goals.calls import Percentiles, Throughput
from optim._engine.jobs.start_up import Ready
from optim._engine.plugins.offers import OfferedPass
from optim._engine.search.taste import BUSY
from optim._engine.sources.exported import SourceDrift
from optim.after_run import StepBlame
from optim.goal import ROUNDS_FOR_95, Amount, GenerationTimes, Ratio
from optim.model import Model
from optim.passes import Interface, PassResult, Role, Stage

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


def chain_of(target: str, steps: Iterable[Step]) -> ChainKey:
    """What a chain of these steps is called on a target, which has no name on the baseline."""
    return (*(((target, ""),) if target else ()), *(step.key for step in steps))


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
    def chain(self) -> ChainKey:
        """What it is called."""
        return chain_of(self.target, self.steps)

    @property
    def is_original(self) -> bool:
        """Whether it is what the user has: no step was done, and it runs where the baseline does."""
        return not self.steps and not self.target

    @property
    def is_lossy(self) -> bool:
        """Whether the user's budget is what it is held to."""
        return any(step.lossy for step in self.steps)

    def after(self, step: Step, made: PassResult, size_bytes: int | None = None) -> Candidate:
        """The candidate with one more step, and with what its pass made; without a size the files stay as they are."""
        longer = replace(self, model=made.model, size_bytes=size_bytes or self.size_bytes, steps=(*self.steps, step))
        if made.interface is None:
            return longer
        longer = replace(longer, interfaces=(*self.interfaces, made.interface))
        return replace(longer, recast=step, given=self.model) if made.interface.raw else longer

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
        behind: the steps before it, as they are called in a chain.
        status: decided at the latest when the search ends.
        reason: one sentence.
        timing: latency to the original's, the best over the session settings tried with it.
        parent_ratio: the same of the chain without it.
        drift: on the samples it was compared on last.
        seconds: spent on it, its races excluded.
        counts: what the pass says happened.
        notes: what the pass says.
        task: the task metric, on the samples it was measured on last.
        size_bytes: of the model after it, once delivered.
        out_of_time: whether it was not tried, or not to the end, for want of time.
        objection: why the gate dropped it: its outputs are not right.
        peak_memory_bytes: the least that opening and running the model after it took; 0 where nobody looked.
        not_here: whether it was not tried for a reason that has to do with this machine and what is installed, and not
            with what was found.
        printed: what the pass printed.
        trace: of the exception that it ended with.
        broke: whether the pass's own code broke: with an exception that is no diagnosis, or a crash of its process.
        unrepaired: why it was not repaired, where that was looked into; it follows the reason.
        goal_ratio: what the goal's own clock found of the model after it, to the original's, the least seen; None where
            the goal has none.
        blame: the nodes that make it wrong, where that was looked into.
        unchanged: whether the pass ran, and found nothing to change.
        proven: whether ``timing`` is that of fresh rounds at the end, which a quick look never replaces.
    """

    step: Step
    behind: ChainKey = ()
    status: StepStatus = StepStatus.SKIPPED
    reason: str = ""
    timing: Ratio | None = None
    parent_ratio: float | None = None
    drift: Drift | None = None
    seconds: float = 0.0
    counts: dict[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    task: TaskFigure | None = None
    size_bytes: int | None = None
    out_of_time: bool = False
    objection: Objection = field(default_factory=Objection)
    peak_memory_bytes: int = 0
    not_here: bool = False
    printed: tuple[str, ...] = ()
    trace: str = ""
    broke: bool = False
    unrepaired: str = ""
    goal_ratio: float | None = None
    blame: StepBlame | None = None
    unchanged: bool = False
    proven: bool = False

    @property
    def ratio(self) -> float | None:
        """Latency to the original's; None if it was not timed."""
        return self.timing.value if self.timing is not None else None

    @property
    def why(self) -> str:
        """The reason, why it was not repaired, and what is to blame."""
        blamed = f"blamed: {self.blame.summary}" if self.blame and self.blame.summary else ""
        parts = [self.reason, self.unrepaired, blamed]
        return "; ".join(filter(None, parts)) if self.reason else ""

    @property
    def on(self) -> tuple[str, ...]:
        """Names of the passes before it in the chain."""
        return tuple(name for name, options in self.behind if options)

    @property
    def target(self) -> str:
        """Name of the target that it was tried for; empty where the run has one only."""
        return next((name for name, options in self.behind if not options), "")

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
        self.timing, self.proven = measured.lane.ratio, proven

    def settle(self, status: StepStatus, reason: str) -> None:
        """Decide what became of it."""
        self.status, self.reason = status, reason
        self.objection, self.out_of_time = Objection(), False

    def run_out(self, reason: str) -> None:
        """Leave it for want of time: nothing speaks against it."""
        self.settle(StepStatus.SKIPPED, reason)
        self.out_of_time = True

    def drop(self, objection: Objection, seen: str = "") -> None:
        """Drop it for an objection of the gate; ``seen`` says where that was seen."""
        self.settle(StepStatus.DROPPED, f"{seen}{objection}")
        self.objection = objection


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
        value, (low, high) = self.latency_ms, self.latency_ci_ms
        if self.ratio is None or not value:
            return None
        if not high:
            return Amount(value, value, value, is_sure=False)
        return Amount(value, min(low, value), max(high, value), self.ratio.rounds >= ROUNDS_FOR_95)


_UNTIMED = LaneResult()

ITSELF = LaneResult(ratio=Ratio(1.0, 1.0, 1.0, ROUNDS_FOR_95))
"""The figures of the original against itself, by definition."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A candidate with the figures of its lane.

    Attributes:
        candidate: with the session settings it was timed with.
        lane: all figures, of both races if it was timed twice; empty if it was not timed.
        source: how far it is from the source that was exported; None where it was not held against one.
        proven: whether these are figures of fresh rounds and all samples.
        within: whether it keeps the budget.
        number: its place on the front, the fastest first; 0 beside it.
    """

    candidate: Candidate
    lane: LaneResult = _UNTIMED
    source: SourceDrift | None = None
    proven: bool = False
    within: bool = True
    number: int = 0

    @classmethod
    def of(cls, candidate: Candidate, lane: LaneResult) -> Measured:
        """The figures of a lane; the drift is that of the samples compared there."""
        return cls(candidate.compared(lane.ready) if lane.ready is not None else candidate, lane)

    @property
    def digest(self) -> str:
        """Digest of the model."""
        return self.candidate.digest

    @property
    def ratio(self) -> float | None:
        """Latency to the original's; None on a target where time means nothing."""
        return self.lane.ratio.value if self.lane.ratio is not None else None

    @property
    def peak_memory_bytes(self) -> int:
        """Of opening and running it; 0 if it was not timed."""
        lane = self.lane
        return lane.ready.peak_memory_bytes if lane.ready is not None and lane.ratio is not None else 0

    @property
    def comparisons(self) -> tuple[OutputComparison, ...]:
        """With the original, on the samples compared in its race."""
        return self.lane.ready.comparisons if self.lane.ready is not None else ()

    @property
    def is_disturbed(self) -> bool:
        """Whether other programs used the machine in most of its rounds."""
        return self.lane.disturbed > BUSY


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
