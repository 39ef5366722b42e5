"""Parts of ``report.json``, each made from what the run found; :class:`Part` is the base of all."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from optim._engine.goals.calls import Percentiles, Throughput
from optim._engine.search.state import Attempt
from optim.errors import ExitStatus, OptimError

if TYPE_CHECKING:
    from optim._engine.gate.drift import Drift
    from optim._engine.jobs.start_up import StartUp
    from optim._engine.sources.exported import SourceDrift
    from optim.goal import GenerationTimes, Ratio


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


Figure = Annotated[float | None, BeforeValidator(_finite)]
"""A number, or null where there is none or where it is not finite."""


class Part(BaseModel):
    """One object of the report; unknown fields are refused."""

    # built when first used: a report has few of its parts, and classes that nobody uses cost 0.02 s of every command
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, defer_build=True)


class DriftReport(Part):
    """How far outputs are from the original's, each figure of the worst output."""

    relative_error: Figure = Field(
        description=(
            "the drift: the worst error of any slice, in units of how the original varies; 1 is as bad as a constant"
        )
    )
    at: str = Field(default="", description="output and slice with this drift; empty if rounding explains it")
    max_abs: Figure = Field(description="largest absolute difference, for information")
    cosine: Figure = Field(description="cosine of the flattened outputs, for information")
    foreseen: Figure = Field(
        default=None,
        description="limit that relative_error of a further sample stays below, estimated from the spread over samples",
    )


def drift_report(drift: Drift, at: str = "") -> DriftReport:
    """How far outputs are, beside what a further sample may be."""
    return DriftReport(
        relative_error=drift.relative_error,
        at=at,
        max_abs=drift.max_abs,
        cosine=drift.cosine,
        foreseen=max(drift.relative_error, drift.foreseen),
    )


class StartReport(Part):
    """What comes before a model is as fast as it gets; other models may have been opened beside it."""

    open_ms: float = Field(description="milliseconds to open the model, without the import of the runtime")
    first_ms: float = Field(description="milliseconds of the first call")
    run_ms: float = Field(description="milliseconds of a later call on the same inputs")
    open_memory_bytes: int = Field(description="peak memory while the model opens, without imported libraries")


class GoalRatioReport(Part):
    """What the goal's own clock found of the result, to the original's; both timed in every round."""

    value: float = Field(description="ratio of the result to the original, by the clock of the goal")
    ci: tuple[float, float] | None = Field(description="95 % interval of the ratio; null with fewer than six rounds")
    rounds: int = Field(description="number of rounds")


def goal_ratio_report(found: Ratio | None) -> GoalRatioReport | None:
    """Of what is delivered; None where the goal has no clock of its own."""
    return GoalRatioReport(value=found.value, ci=found.interval, rounds=found.rounds) if found else None


def start_report(found: StartUp | None) -> StartReport | None:
    """Of a lane; None where nothing was timed."""
    if found is None or not found.first_s:
        return None
    return StartReport(
        open_ms=1e3 * found.open_s,
        first_ms=1e3 * found.first_s[0],
        run_ms=1e3 * found.run_s[0],
        open_memory_bytes=found.open_memory_bytes,
    )


class DepthReport(Part):
    """One token behind a past."""

    tokens: int = Field(description="tokens in the past")
    tokens_per_s: float = Field(description="tokens per second")
    past_bytes: int = Field(description="memory of the past during this token")


class GenerationReport(Part):
    """One answer to one prompt, one row at a time."""

    prompt: int = Field(description="number of tokens of the prompt")
    new: int = Field(description="number of tokens of the answer")
    first_ms: float = Field(description="milliseconds until the first token")
    answer_ms: float = Field(
        description="milliseconds of the whole answer, interpolated between the measured lengths of the past"
    )
    depths: tuple[DepthReport, ...] = Field(description="speed at each measured length of the past")


def generation_report(found: GenerationTimes | None) -> GenerationReport | None:
    """Of a lane; None where the goal is another."""
    if found is None:
        return None
    rows = zip(found.depths, found.token_s, found.past_bytes, strict=True)
    depths = tuple(DepthReport(tokens=n, tokens_per_s=1 / s, past_bytes=b) for n, s, b in rows)
    first, answer = 1e3 * found.first_s, 1e3 * found.seconds
    return GenerationReport(prompt=found.prompt, new=found.new, first_ms=first, answer_ms=answer, depths=depths)


class TriedReport(Part):
    """A way to run the model that was looked at for some tenths of a second."""

    how: str = Field(description="setting, e.g. batch 8, 2 sessions of 1 thread")
    samples_per_second: float | None = Field(description="samples per second")
    p95_ms: float | None = Field(description="latency (p95) in milliseconds")
    problem: str = Field(description="reason why it has no figures or was not chosen; else empty")


class ThroughputReport(Part):
    """What a model does at best on this machine."""

    how: str = Field(description="chosen batch size, sessions and threads")
    batch: int = Field(description="chosen batch size")
    sessions: int = Field(description="chosen number of sessions")
    threads: int | None = Field(description="threads of each session; null if the settings of the session decide")
    samples_per_second: float = Field(description="samples per second")
    calls_ms: Percentiles = Field(description="latency of single calls in milliseconds")
    limit_ms: float | None = Field(description="latency limit (p95) in milliseconds")
    as_it_came: float | None = Field(description="samples per second of the model as given: one session, no batch")
    tried: tuple[TriedReport, ...] = Field(description="settings that optim tried")
    note: str = Field(
        default="", description="limit of these figures, such as a batch size that the model fixes; else empty"
    )


def throughput_report(found: Throughput | None) -> ThroughputReport | None:
    """Of a lane; None where throughput is not the goal."""
    if found is None:
        return None
    served = found.served
    return ThroughputReport(
        how=served.serving.text,
        **asdict(served.serving),
        samples_per_second=found.samples_per_s,
        calls_ms=found.calls,
        limit_ms=served.limit_ms,
        as_it_came=served.tried[0].samples_per_s or None,
        tried=tuple(
            TriedReport(
                how=one.serving.text,
                samples_per_second=one.samples_per_s or None,
                p95_ms=one.p95_s * 1e3 or None,
                problem=one.problem,
            )
            for one in served.tried
        ),
        note=served.note,
    )


class ExportStepReport(Part):
    """One pass over the source, or one exporter on one component."""

    name: str = Field(description="name of the pass or exporter")
    plugin: str = Field(description="plugin with the pass")
    stage: str = Field(description="stage of the pass")
    status: Literal["kept", "dropped", "not-applicable", "failed", "skipped"] = Field(description="outcome of the step")
    reason: str = Field(description="reason for the outcome")
    component: str = Field(description="component of the source; empty if the pass changes the whole source")
    options: dict[str, Any] = Field(description="options of the pass")
    counts: dict[str, int] = Field(description="counts that the pass reports")
    notes: tuple[str, ...] = Field(description="notes of the pass")
    seconds: float = Field(description="seconds of this step")
    printed: tuple[str, ...] = Field(default=(), description="text that the pass printed")


class SourceDriftReport(Part):
    """How far the result is from what the source itself computes."""

    drift: DriftReport = Field(description="drift of the worst output")
    samples: int = Field(description="number of compared runs; 0 if the result accepts none of the trials")
    trials: tuple[str, ...] = Field(description="shapes, padding and lengths of the past on which it was compared")
    skipped: tuple[str, ...] = Field(description="trials that the result does not accept, with the reason")
    worst: str = Field(description="output with the worst drift, and its trial")
    limit: Figure = Field(description="limit of the drift; null if there is none")
    note: str = Field(
        default="", description="why the result was not compared with the source, or less of it; else empty"
    )


class ExportReport(Part):
    """How the original was exported, and how far it is from its source."""

    source: str = Field(description="source as given")
    component: str = Field(description="component of the source")
    drift: DriftReport = Field(description="drift from the outputs of the source, over all trials")
    trials: tuple[str, ...] = Field(description="shapes, padding and lengths of the past on which it was compared")
    skipped: tuple[str, ...] = Field(description="trials that the source refuses, with the reason")
    tokens: int = Field(description="number of compared tokens of greedy generation")
    result_drift: SourceDriftReport | None = Field(
        default=None,
        description="drift of the result from the outputs of the source; null if the result is the exported graph",
    )
    steps: tuple[ExportStepReport, ...] = Field(description="passes over the source, and exporters")
    notes: tuple[str, ...] = Field(description="notes of the export")


def source_drift_report(found: SourceDrift | None) -> SourceDriftReport | None:
    """How far a result is from the source; None if it was not compared."""
    if found is None:
        return None
    return SourceDriftReport(
        drift=drift_report(found.drift),
        samples=found.samples,
        trials=found.trials,
        skipped=found.skipped,
        worst=f"output '{found.output}' {found.place}" if found.output else "",
        limit=found.limit,
        note=found.note,
    )


DELIVERY_FILE = "delivery.json"


class OpenedCost(Part):
    """How long the graph takes as its consumer opens it, to the result with its tuned settings."""

    ratio: float = Field(
        description="latency in the consumer divided by the latency with session.json; above 1 is slower"
    )
    ci: tuple[float, float] | None = Field(description="95 % interval of the ratio; null with fewer than six rounds")


class LayoutReport(Part):
    """A result in one layout."""

    layout: str = Field(description="layout with its options, as requested")
    plugin: str = Field(description="plugin with the layout")
    folder: str = Field(
        description=(
            "folder of the layout, relative to the file that names it, or as the user named it; empty if it failed"
        )
    )
    graph: str = Field(description="file that the consumer opens, relative to the folder")
    status: Literal["opened", "not-opened", "failed"] = Field(
        description=(
            "opened: the consumer ran it and computes the same; not-opened: it is written but was not run; "
            "failed: it is not there"
        )
    )
    text: str = Field(
        description="consumer that opened it with its version, or the reason why none did, or what failed"
    )
    drift: Figure = Field(default=None, description="drift of the consumer's outputs from the outputs of the result")
    tolerance: Figure = Field(default=None, description="largest drift that rounding explains")
    samples: int = Field(default=0, description="number of samples that the consumer ran")
    not_carried: tuple[str, ...] = Field(default=(), description="tuned settings that the layout cannot store")
    cost: OpenedCost | None = Field(
        default=None, description="latency as the consumer opens it; null if no setting is lost, or nothing is timed"
    )
    baked: str = Field(
        default="",
        description="runtime and processor that the graph is for, if it was written after optimization; else empty",
    )
    notes: tuple[str, ...] = Field(default=(), description="notes of the layout")

    @property
    def line(self) -> str:
        """All of it in a line for people."""
        return "; ".join((f"{self.layout}: {self.status}: {self.said}", *self.notes))

    @property
    def said(self) -> str:
        """What became of it, with its figures."""
        parts = [self.text]
        if self.drift is not None:
            parts.append(f"drift {self.drift:.2g} (rounding explains {self.tolerance or 0:.2g})")
        if self.baked:
            parts.append(f"settings are baked into the graph: for {self.baked} alone")
        if self.not_carried:
            parts.append(f"not carried: {', '.join(self.not_carried)}")
        if self.cost is not None:
            sure = f" [{self.cost.ci[0]:.2f}, {self.cost.ci[1]:.2f}]" if self.cost.ci else ""
            parts.append(f"opened there, it takes {self.cost.ratio:.2f}{sure} times as long")
        return "; ".join(parts)


class BrokenPassReport(Part):
    """A pass whose own code broke: with an exception that is no diagnosis, or a crash of its process."""

    pass_name: str = Field(validation_alias="pass", serialization_alias="pass", description="name of the pass")
    plugin: str = Field(description="plugin with the pass")
    distribution: str = Field(description="distribution of the plugin")
    version: str = Field(description="version of the distribution")
    times: int = Field(description="number of steps in which the pass broke")
    error: str = Field(description="first of its errors; that step has the traceback")
    fix: str = Field(description="how to report the error, and how to run without the pass")

    @property
    def diagnosis(self) -> OptimError:
        """The same as an error."""
        times = "" if self.times == 1 else f" {self.times} times"
        return OptimError(
            "pass-broke",
            f"{self.pass_name} broke{times}: what it would have gained is not known",
            self.error,
            self.fix,
            f"{self.distribution} {self.version}".strip(),
            ExitStatus.INTERNAL,
        )


def broken_passes(attempts: Iterable[Attempt], packages: Mapping[str, tuple[str, str]]) -> tuple[BrokenPassReport, ...]:
    """The passes that broke, each once."""
    found: dict[str, list[Attempt]] = {}
    for attempt in attempts:
        if attempt.broke:
            found.setdefault(attempt.step.pass_name, []).append(attempt)
    return tuple(_broken(name, rows, packages) for name, rows in found.items())


def _broken(name: str, rows: list[Attempt], packages: Mapping[str, tuple[str, str]]) -> BrokenPassReport:
    plugin = rows[0].step.plugin
    distribution, version = packages.get(plugin, ("", ""))
    return BrokenPassReport(
        pass_name=name,
        plugin=plugin,
        distribution=distribution,
        version=version,
        times=len(rows),
        error=rows[0].reason,
        fix=f"report it to the authors of {distribution or plugin}, with the traceback of that step in report.html; "
        f"--without {name} runs without the pass",
    )
