"""``report.json``, field by field.

Infinity and NaN are no JSON: a figure that is not finite is null, and the reason or the problem beside it says so.
Ratios are latencies against the original model as the target's own runtime runs it by default; where several targets
compete, as that of ``baseline`` does: below 1 is faster.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from optim._engine.gate.drift import BatchDrift
from optim._engine.goals.calls import Percentiles
from optim.after_run import Section
from optim.backend import Check, KernelCount
from optim.errors import ExitStatus, OptimError

REPORT_FILE = "report.json"
PAGE_FILE = "report.html"
"""The same for people, where a plugin renders it."""
DELIVERY_FILE = "delivery.json"


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


Figure = Annotated[float | None, BeforeValidator(_finite)]
"""A number, or null where there is none or where it is not finite."""

Interval = Annotated[
    tuple[float, float] | None, Field(description="95 % interval of the ratio; null with fewer than six rounds")
]
PeakMemory = Annotated[
    int | None, Field(description="peak memory to open and run the model, without imported libraries")
]


class Part(BaseModel):
    """One object of a report or an answer; unknown fields are refused."""

    # built when first used: a report has few of its parts, and classes that nobody uses cost 0.02 s of every command
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, defer_build=True)

    @classmethod
    def of(cls, *records: object, **others: Any) -> Self:
        """Fills each field from the first record that has an attribute of that name; ``others`` override."""
        fields = [(record, name) for record in reversed(records) for name in cls.model_fields if hasattr(record, name)]
        return cls(**{name: getattr(record, name) for record, name in fields} | others)


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


class StartReport(Part):
    """Times before a model is as fast as it gets; other models may have been opened beside it."""

    open_ms: float = Field(description="milliseconds to open the model, without the import of the runtime")
    first_ms: float = Field(description="milliseconds of the first call")
    run_ms: float = Field(description="milliseconds of a later call on the same inputs")
    open_memory_bytes: int = Field(description="peak memory while the model opens, without imported libraries")


class GoalRatioReport(Part):
    """What the goal's own clock found of the result, to the original's; both timed in every round."""

    value: float = Field(description="ratio of the result to the original, by the clock of the goal")
    ci: Interval
    rounds: int = Field(description="number of rounds")


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
    answer_ms: float = Field(description="milliseconds of the whole answer, interpolated between lengths of the past")
    depths: tuple[DepthReport, ...] = Field(description="speed at each measured length of the past")


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
    note: str = Field(default="", description="limit of these figures, such as a fixed batch size; else empty")


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
    note: str = Field(default="", description="why less or nothing was compared with the source; else empty")


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


class OpenedCost(Part):
    """How long the graph takes as its consumer opens it, to the result with its tuned settings."""

    ratio: float = Field(description="latency in the consumer divided by that with session.json; above 1 is slower")
    ci: Interval


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
    text: str = Field(description="consumer that opened it with its version, or why none did, or what failed")
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


class BoundReport(Part):
    """A bound on a figure, and how the model stands to it that is delivered, else the nearest, else the original."""

    figure: str = Field(description="size, memory or latency")
    most: float = Field(description="largest value that is accepted")
    unit: str = Field(description="B or ms")
    value: Figure = Field(description="value of the model; null if it was not measured")
    interval: tuple[float, float] | None = Field(
        description="95 % interval of value; null if not measured, or with fewer than six rounds"
    )
    standing: str = Field(description="meets if all of the interval is within the bound, beyond, or undecided")


class BudgetReport(Part):
    """How much drift was accepted, and how much loss of the task metric."""

    max_drift: Figure = Field(
        description="largest drift of lossy passes; null with --lossless, or with --max-loss and no --max-drift"
    )
    lossless: bool = Field(description="true if only rounding error is allowed")
    metric: str | None = Field(default=None, description="task metric with its options")
    max_loss: str | None = Field(
        default=None,
        description="largest loss of the metric: a share of the original's value, such as 1%, or an amount",
    )
    max_mismatch: float = Field(default=0.0, description="share of texts or whole numbers of an output that may differ")
    bounds: tuple[BoundReport, ...] = Field(default=(), description="bounds on size, memory and latency")


class OriginalReport(Part):
    """The model as it came."""

    path: str = Field(description="path of the original")
    digest: str = Field(description="sha256 over graph, weights and session settings")
    latency_ms: Figure = Field(description="median latency; null if nothing was timed")
    size_bytes: int = Field(description="bytes on disk, graph and weights")
    peak_memory_bytes: PeakMemory
    operators: dict[str, int] = Field(description="number of nodes by operator")
    operator_ms: dict[str, float] = Field(
        default={}, description="milliseconds of a run by operator, as the runtime executes them; empty if not profiled"
    )
    start: StartReport | None = Field(default=None, description="times of a cold start; null if nothing was timed")
    batch: BatchDrift | None = Field(default=None, description="batch and padding sensitivity; null if not measured")
    generation: GenerationReport | None = Field(
        default=None, description="times of an answer; null if the goal is not generate"
    )
    throughput: ThroughputReport | None = Field(
        default=None, description="best throughput; null if the goal is not throughput"
    )


class OutputReport(Part):
    """One output against the original's, the worst over all samples."""

    name: str = Field(description="name of the output")
    dtype: str = Field(description="element type")
    shape: tuple[int, ...] = Field(description="shape on the first sample")
    compared: int = Field(description="number of compared elements, without padding")
    relative_error: Figure = Field(description="drift: worst error of any slice, in units of how the original varies")
    max_abs: Figure = Field(description="largest absolute difference, for information; null if the output is not float")
    cosine: Figure = Field(description="cosine of the arrays, for information; null if the output is not float")
    sqnr_db: Figure = Field(
        description="signal-to-noise ratio in dB, for information; null if outputs are equal or not comparable"
    )
    max_ulp: Figure = Field(description="largest distance in units in the last place; null if the output is not float")
    top1_agreement: Figure = Field(description="share of rows whose largest element has the same index")
    problem: str = Field(default="", description="defect that no drift can express, such as another shape; else empty")
    limit: Figure = Field(default=None, description="limit for this output alone; null if the budget is its limit")
    each: tuple[Figure, ...] = Field(default=(), description="relative_error of each sample; empty with one sample")
    overflowed: bool = Field(default=False, description="true if it has NaN or infinity, and the original has not")
    above: dict[str, int] = Field(default={}, description="number of elements with an error above each limit")
    where: str = Field(default="", description="slice with the worst drift; empty for the whole output")
    sample: str = Field(default="", description="sample with the worst drift")
    rounding_excess: Figure = Field(
        default=None, description="error divided by the error that rounding explains; rounding explains values up to 1"
    )
    mismatched: Figure = Field(default=None, description="share of texts or whole numbers that differ; null for floats")
    accepted: bool = Field(
        default=False, description="true if the budget accepts that share: that share is no drift then"
    )
    unjudged: str = Field(default="", description="reason why the samples cannot show an error; empty if they can")

    @classmethod
    def of(cls, *records: object, **others: Any) -> Self:
        """The report of an output's comparison; texts and whole numbers have no figures of floats."""
        if getattr(records[0], "mismatched", None) is not None:
            others |= {"max_abs": None, "cosine": None, "sqnr_db": None, "above": {}}
        return super().of(*records, **others)


class ShapeReport(Part):
    """Latency on one shape of the inputs."""

    shape: str = Field(description="shape, e.g. input_ids 1x128")
    original_ms: float = Field(description="latency of the original in milliseconds")
    result_ms: float = Field(description="latency of the result in milliseconds")
    ratio: float = Field(description="result_ms divided by original_ms, as the median over rounds")
    ci: Interval
    original_calls: Percentiles | None = Field(
        default=None, description="latency of single calls of the original, in milliseconds"
    )
    result_calls: Percentiles | None = Field(
        default=None, description="latency of single calls of the result in the same race, in milliseconds"
    )


class TaskReport(Part):
    """The task metric of the result beside the original's, on the same samples."""

    metric: str = Field(description="name of the metric with its options")
    higher_is_better: bool = Field(description="true if a higher value is better")
    original: float = Field(description="value of the original")
    value: float = Field(description="value of the result")
    loss: float = Field(description="how much worse the result is, in the unit of the metric; negative if it is better")
    standard_error: float | None = Field(description="standard error of the loss over samples; null with one sample")
    samples: int = Field(description="number of samples")


class ResultReport(Part):
    """The model that is delivered."""

    digest: str = Field(description="sha256 over graph, weights and session settings")
    latency_ms: Figure = Field(description="median latency in milliseconds")
    latency_ratio: Figure = Field(description="latency of the result divided by latency of the original")
    latency_ratio_ci: Interval
    size_bytes: int = Field(description="bytes on disk, graph and weights")
    peak_memory_bytes: PeakMemory
    executed_on: dict[str, float] = Field(description="share of the nodes by provider; empty if not measured")
    drift: DriftReport = Field(description="drift of the worst output")
    task: TaskReport | None = Field(default=None, description="task metric; null without --metric")
    operators: dict[str, int] = Field(description="number of nodes by operator")
    operator_ms: dict[str, float] = Field(default={}, description="as in original")
    outputs: tuple[OutputReport, ...] = Field(description="comparison of each output")
    shapes: tuple[ShapeReport, ...] = Field(description="latency of each shape")
    loader: bool = Field(default=True, description="true if the folder has load.py and optim.load opens it")
    load_script: str = Field(
        default="", description="text of load.py if another runtime than onnxruntime opens the model; else empty"
    )
    requirements: tuple[str, ...] = Field(
        default=(), description="packages that load.py needs, as requirements for pip"
    )
    kernels: tuple[KernelCount, ...] = Field(
        default=(), description="kernels that the runtime used; empty if it does not report them"
    )
    start: StartReport | None = Field(default=None, description="times of a cold start; null if nothing was timed")
    batch: BatchDrift | None = Field(default=None, description="batch and padding sensitivity; null if not measured")
    throughput: ThroughputReport | None = Field(
        default=None, description="best throughput; null if the goal is not throughput"
    )
    goal_ratio: GoalRatioReport | None = Field(
        default=None, description="ratio by the clock of the goal; null if the goal has no clock of its own"
    )
    generation: GenerationReport | None = Field(default=None, description="as in original")


class StepReport(Part):
    """One pass with one set of options, tried on one chain of passes."""

    stage: str = Field(description="stage of the pass")
    pass_name: str = Field(validation_alias="pass", serialization_alias="pass", description="name of the pass")
    plugin: str = Field(description="plugin with the pass")
    options: dict[str, Any] = Field(description="options of the pass")
    on: tuple[str, ...] = Field(description="passes that were applied before this one")
    status: Literal["kept", "dropped", "not-applicable", "failed", "skipped"] = Field(description="outcome of the step")
    reason: str = Field(description="reason for the outcome")
    ratio_to_original: Figure = Field(
        description="latency ratio to the original, the best over all session settings tried with it"
    )
    ratio_ci: tuple[float, float] | None = Field(default=None, description="95 % interval of ratio_to_original")
    size_bytes: int | None = Field(default=None, description="size of the model after this step")
    ratio_to_best: Figure = Field(description="latency ratio to the model without this step")
    drift: DriftReport | None = Field(description="drift of the worst output; null if not compared")
    task_value: Figure = Field(default=None, description="task metric, on the samples of the exploration")
    task_loss: Figure = Field(
        default=None, description="loss of the task metric; negative if it is better than the original's"
    )
    seconds: float = Field(description="seconds of this step, without timing")
    counts: dict[str, int] = Field(description="counts that the pass reports")
    notes: tuple[str, ...] = Field(description="notes of the pass")
    not_here: bool = Field(
        default=False,
        description="true if this machine or the installed packages prevented the step, whatever the model is",
    )
    printed: tuple[str, ...] = Field(default=(), description="text that the pass printed")
    target: str = Field(default="", description="target of this step; empty with one target")
    trace: str = Field(
        default="", description="traceback if the pass raised an exception, the plugin's own lines first"
    )
    blame: dict[str, Any] | None = Field(
        default=None, description="nodes that make the result wrong, by plugin diagnose; null if not searched"
    )


class PointReport(Part):
    """A model that was measured: a place in the plot of speed against drift."""

    number: int | None = Field(description="number for optim pick; null if another result is better in every respect")
    chain: tuple[str, ...] = Field(description="its passes with their options, as text")
    latency_ms: Figure = Field(description="median latency in milliseconds")
    latency_ratio: Figure = Field(description="latency of the result divided by latency of the original")
    latency_ratio_ci: Interval
    size_bytes: int = Field(description="bytes on disk, graph and weights")
    peak_memory_bytes: PeakMemory
    drift: DriftReport = Field(description="drift of the worst output")
    task_value: Figure = Field(description="value of the task metric")
    lossy: bool = Field(description="true if a lossy pass is in the chain")
    proven: bool = Field(
        description="true after the final timing and the comparison on all samples; false after a first timing"
    )
    within: bool = Field(description="true if the model meets the budget")
    delivered: bool = Field(description="true for the result")
    target: str = Field(default="", description="target that runs it; empty with one target")


class TargetReport(Part):
    """One of several targets that competed."""

    name: str = Field(description="name of the target")
    runtime: str = Field(description="runtime of the target: a provider of onnxruntime, or another runtime")
    status: Literal["delivered", "beaten", "failed", "absent"] = Field(
        description="outcome; absent means that this machine cannot use it"
    )
    reason: str = Field(description="reason for the outcome")
    baseline: bool = Field(description="true if all ratios of the report refer to the original on this target")
    original_ratio: Figure = Field(
        description="latency of the original on this target divided by its latency on the baseline"
    )
    original_ratio_ci: tuple[float, float] | None = Field(description="95 % interval of original_ratio")
    original_drift: DriftReport | None = Field(
        description="drift of the original on this target from its outputs on the baseline"
    )
    best_ratio: Figure = Field(description="latency ratio of the best candidate that met the budget on this target")
    versions: dict[str, str] = Field(description="versions of the libraries that run it")


class Assumption(Part):
    """What was assumed of an input that was synthesized."""

    input: str = Field(description="name of the input")
    text: str = Field(description="assumption about the input")


class FeedsReport(Part):
    """The input samples of the run."""

    origin: str = Field(description="origin of the samples, as text")
    samples: int = Field(description="number of samples")
    held_out: int = Field(default=0, description="number of held-out samples, which no pass sees")
    compared: int = Field(description="number of samples that the result was compared on")
    assumptions: tuple[Assumption, ...] = Field(description="assumptions about synthesized inputs")


class DeviceReport(Part):
    """What an independent runtime says of the target: see ``docs/trust.md``."""

    by: str = Field(description="independent runtime that computed the original; empty if there is none")
    drift: Figure = Field(description="drift of the reference outputs from the outputs of that runtime")
    samples: int = Field(description="number of samples that both computed")
    available: int = Field(default=0, description="number of samples that both would have computed with enough time")
    reason: str = Field(default="", description="reason why the target was not checked; empty if it was")


class MachineReport(Part):
    """The machine that timed the models."""

    cpu: str = Field(description="name of the processor")
    cores: int = Field(description="number of processors that the process may use")
    machine_cores: int | None = Field(default=None, description="number of processors of the machine; null if unknown")
    quota: float | None = Field(
        default=None, description="CPU quota of the container or batch system, in processors; null without a quota"
    )
    memory_bytes: int | None = Field(description="memory that the process may use")
    os: str = Field(description="operating system")
    python: str = Field(description="version of Python")
    instruction_sets: tuple[str, ...] = Field(
        default=(), description="instruction sets that kernels depend on, by their names in Linux; empty if unknown"
    )
    device: str = Field(default="", description="accelerator with its driver; empty without one")


class SearchReport(Part):
    """Costs of the search."""

    computed: int = Field(description="number of jobs that ran")
    from_cache: int = Field(description="number of answers from the cache")
    seconds: float = Field(description="seconds of the search")
    budget_seconds: float | None = Field(
        description="time limit of the whole run, given or announced; null if a lock was repeated"
    )


class Report(Part):
    """Everything a run found out."""

    status: Literal["improved", "prepared", "unchanged", "budget-missed", "failed"] = Field(description="the verdict")
    reason: str = Field(description="the verdict in one sentence")
    broken: tuple[BrokenPassReport, ...] = Field(
        default=(), description="passes that raised an exception of their own; their gain is unknown"
    )
    target: str = Field(description="target that runs the result")
    baseline: str = Field(default="", description="target that ratios refer to; empty with one target")
    targets: tuple[TargetReport, ...] = Field(default=(), description="targets that competed; empty with one target")
    goal: str = Field(description="goal of the run")
    budget: BudgetReport
    original: OriginalReport
    export: ExportReport | None = Field(
        default=None, description="how the source was exported; null if the source is an ONNX model"
    )
    result: ResultReport | None = Field(description="the delivered model; null if there is none")
    nearest: PointReport | None = Field(
        default=None, description="the candidate nearest to the budget if none meets it; it is in nearest/"
    )
    points: tuple[PointReport, ...] = Field(default=(), description="all measured models")
    key: str = Field(default="", description="key of this run in the cache")
    steps: tuple[StepReport, ...] = Field(description="each pass that was tried, with its options")
    feeds: FeedsReport
    tolerance: float = Field(description="largest drift that counts as rounding, measured on the original")
    device: DeviceReport | None = Field(
        default=None,
        description="check of the target against an independent runtime; null if the target is that runtime",
    )
    notes: tuple[str, ...] = Field(description="notes that limit what a figure means")
    checks: tuple[Check, ...] = Field(default=(), description="checks of the delivered files")
    layouts: tuple[LayoutReport, ...] = Field(default=(), description="further layouts of the result")
    machine: MachineReport
    versions: dict[str, str] = Field(description="versions of libraries by distribution")
    seed: int = Field(description="random seed")
    seconds: float = Field(description="seconds of the run")
    search: SearchReport
    viewer: str = Field(default="", description="command that shows the run folder DIR; empty if there is none")
    cached: bool = Field(description="true if the whole run came from the cache")
    first_seconds: float | None = Field(default=None, description="seconds of the earlier run if cached; else null")
    sections: tuple[Section, ...] = Field(default=(), exclude=True, description="sections of report.html by plugins")

    def as_json(self) -> str:
        """The text of ``report.json``."""
        return self.model_dump_json(by_alias=True, indent=2) + "\n"

    @property
    def front(self) -> list[PointReport]:
        """The points that ``--pick`` chooses from, the fastest first."""
        return sorted((point for point in self.points if point.number), key=lambda point: point.number or 0)

    def _repr_html_(self) -> str:
        from optim._engine.plugins.registry import load_registry
        from optim._engine.reports.renderer import RENDERER

        return load_registry().part(RENDERER, "a report cannot be shown in a notebook").frame(self)

    def __str__(self) -> str:
        from optim._engine.reports.renderer import print_report
        from optim.cli_kit.output import captured

        return captured(lambda console: print_report(self, console))
