"""What came of a run, as typed values; the report, the lock and the folder are written from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from optim._engine.goals.bounds import Bound, judged_by_core
from optim._engine.jobs import ingest, prepare
from optim._engine.reports.schema import LayoutReport, Report
from optim._engine.search.settings import RunSettings
from optim._engine.search.state import Attempt, Candidate, LaneResult, Measured
from optim._engine.search.targets.entrants import TargetOutcome
from optim._engine.sources.export_file import KnownExport
from optim.after_run import Section
from optim.backend import Check
from optim.errors import ExitStatus
from optim.goal import Basis, Words
from optim.target import Target


class RunStatus(StrEnum):
    """The verdict in a word; ``prepared`` is what was asked for, done and right, and no better by the goal."""

    IMPROVED = "improved"
    PREPARED = "prepared"
    UNCHANGED = "unchanged"
    BUDGET_MISSED = "budget-missed"
    FAILED = "failed"


def exit_status(report: Report) -> ExitStatus:
    """What a command ends with that made this report.

    That nothing helps is not known where a pass broke: nobody shall take that for a success. What was delivered
    nevertheless is right.
    """
    status = RunStatus(report.status)
    if status is RunStatus.UNCHANGED and report.broken:
        return ExitStatus.INTERNAL
    missed = (RunStatus.BUDGET_MISSED, RunStatus.FAILED)
    return ExitStatus.NOT_HELD if status in missed else ExitStatus.DELIVERED


@dataclass
class Verdict:
    """What a search, or a repeated chain, came to.

    Attributes:
        result: what is delivered; None where the run missed or failed.
        attempts: rows of the report.
        original: the clock's figures of the original; None where nothing was timed.
        points: everything that was measured.
        searches: the workbench and the board of each target, until plugins have looked at the run.
    """

    status: RunStatus
    reason: str
    result: Measured | None
    attempts: list[Attempt]
    original: LaneResult | None = None
    points: list[Measured] = field(default_factory=list)
    searches: tuple[Any, ...] = ()

    @property
    def timing(self) -> LaneResult | None:
        """The figures of the result, shape by shape; None if it was not opened."""
        return self.result.lane if self.result is not None and self.result.lane.ready is not None else None

    @property
    def delivered(self) -> Candidate | None:
        """The chain that is delivered."""
        return self.result.candidate if self.result is not None else None


@dataclass(kw_only=True)
class Outcome(Verdict):
    """Everything a run found out: its verdict, and how it came to it.

    Attributes:
        goal_basis: where the figure of the goal comes from.
        goal_words: of a goal with a clock of its own.
        goal_takes: what the goal looks at of what the user says beside its name.
        target: where what is delivered runs; where the original ran, where nothing is delivered.
        key: of the finished run in the cache.
        packages: distribution and version by plugin.
        first_s: seconds of the run that was made before, if this one was served from the cache; else None.
        announced_s: for the whole run, given or announced; None where nothing bounded it.
        notes: what there was no time for.
        computed: number of jobs that ran.
        from_cache: number of answers from the cache.
        export: how this run exported the original, as the report has it; empty if it came as an ONNX model.
        known: what is known of the export that the original comes from, of this run or an earlier one.
        loader: whether onnxruntime can open what is delivered.
        operator_ms: of a run, by operator, of the original and of the result; empty where nobody looked.
        load_script: text of ``load.py`` where another runtime than onnxruntime opens it.
        requirements: what ``load.py`` needs, as pip takes it.
        baseline: name of the target that ratios are to; empty where that is :attr:`target`.
        targets: what became of each of several targets.
        machine: what the report says of the machine where it was timed, as JSON values; empty: it was this one.
        layouts: in which what is delivered was written too.
    """

    settings: RunSettings
    target: Target
    source: ingest.Answer
    prepared: prepare.Answer
    goal_basis: Basis = Basis.CALLS
    goal_words: Words | None = None
    goal_takes: tuple[str, ...] = ()
    operators: dict[str, int] = field(default_factory=dict)
    key: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    packages: dict[str, tuple[str, str]] = field(default_factory=dict)
    seconds: float = 0.0
    first_s: float | None = None
    search_s: float = 0.0
    announced_s: float | None = None
    notes: tuple[str, ...] = ()
    computed: int = 0
    from_cache: int = 0
    export: Mapping[str, Any] = field(default_factory=dict)
    known: KnownExport | None = None
    checks: tuple[Check, ...] = ()
    loader: bool = True
    operator_ms: tuple[dict[str, float], ...] = ()
    sections: tuple[Section, ...] = ()
    load_script: str = ""
    requirements: tuple[str, ...] = ()
    baseline: str = ""
    targets: tuple[TargetOutcome, ...] = ()
    machine: Mapping[str, Any] = field(default_factory=dict)
    layouts: tuple[LayoutReport, ...] = ()

    @property
    def bounds(self) -> tuple[Bound, ...]:
        """What the user bounded beside the goal."""
        return judged_by_core(self.settings.bounds, self.goal_takes)

    @property
    def timed(self) -> LaneResult | None:
        """The figures of what is delivered, or those of the original if it was not opened itself; None without any."""
        return (self.timing or self.original) if self.result else None

    def target_of(self, candidate: Candidate) -> Target:
        """Where a candidate of this run runs."""
        name = candidate.target or self.baseline
        return next((row.target for row in self.targets if row.target and row.name == name), self.target)

    def requirements_of(self, candidate: Candidate) -> tuple[str, ...]:
        """What opens a candidate of this run, as pip takes it."""
        name = candidate.target or self.baseline
        return next((row.requirements for row in self.targets if row.name == name), self.requirements)

    @property
    def nearest(self) -> Measured | None:
        """The model beyond the budget that is kept aside, where nothing keeps within it."""
        if self.status is not RunStatus.BUDGET_MISSED:
            return None
        return next((point for point in self.points if point.proven and not point.within), None)
