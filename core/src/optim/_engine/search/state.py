"""What the search holds: steps, chains of steps, and what became of every attempt."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from optim._engine.gate.drift import NO_DRIFT, Drift, OutputComparison
from optim._engine.gate.task import TaskFigure
from optim._engine.sources.result import SourceDrift
from optim.model import Model
from optim.passes import Interface, Role, Stage


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
    def key(self) -> tuple[str, str]:
        """What it is called in a chain: the same pass with the same options is the same step."""
        return self.pass_name, repr(sorted(self.options.items()))


@dataclass(frozen=True, slots=True)
class Candidate:
    """A model made by a chain of steps from the original.

    Attributes:
        model: with its session settings.
        steps: oldest first; empty for the original.
        interfaces: of the steps that changed inputs or outputs.
        drift: to the original on the explored samples.
        size_bytes: once delivered.
        task: the task metric, where it was measured.
        recast: the step that changed what goes in and comes out; None where no step did.
        given: the model that this step was given.
    """

    model: Model
    size_bytes: int
    steps: tuple[Step, ...] = ()
    interfaces: tuple[Interface, ...] = ()
    drift: Drift = NO_DRIFT
    task: TaskFigure | None = None
    recast: Step | None = None
    given: Model | None = None

    @property
    def is_lossy(self) -> bool:
        """Whether the user's budget is what it is held to."""
        return any(step.lossy for step in self.steps)

    def after(self, step: Step, model: Model, size_bytes: int, interface: Interface | None) -> Candidate:
        """The chain with one more step."""
        interfaces = (*self.interfaces, interface) if interface else self.interfaces
        recasts = interface is not None and bool(interface.raw)
        recast, given = (step, self.model) if recasts else (self.recast, self.given)
        return Candidate(model, size_bytes, (*self.steps, step), interfaces, self.drift, self.task, recast, given)


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
        low: lower end of the 95 % interval of the ratio.
        high: upper end.
        size_bytes: of the model after it, once delivered.
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
    size_bytes: int | None = None

    def settle(self, status: StepStatus, reason: str) -> None:
        """Decide what became of it."""
        self.status, self.reason = status, reason


@dataclass(frozen=True, slots=True)
class Measured:
    """A candidate with what the clock said of it.

    Attributes:
        candidate: with the session settings it was timed with.
        ratio: latency to the original's; None on a target where time means nothing.
        low: lower end of the 95 % interval.
        high: upper end.
        latency_ms: median.
        peak_memory_bytes: of opening and running it.
        comparisons: with the original, on the explored samples.
        source: how far it is from the source that was exported; None where it was not held against one.
    """

    candidate: Candidate
    ratio: float | None
    low: float | None = None
    high: float | None = None
    latency_ms: float | None = None
    peak_memory_bytes: int = 0
    comparisons: tuple[OutputComparison, ...] = ()
    source: SourceDrift | None = None

    def with_candidate(self, candidate: Candidate) -> Measured:
        """The same figures for an equal candidate."""
        return replace(self, candidate=candidate)
