"""``report.json``, field by field.

Infinity and NaN are no JSON: a figure that is not finite is null, and the reason or the problem beside it says so.
Ratios are latencies against the original model as the target's own runtime runs it by default; where several targets
compete, as that of ``baseline`` does: below 1 is faster.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Literal

from pydantic import Field

from optim._engine.gate.batch_drift import BatchDrift
from optim._engine.gate.drift import OutputComparison
from optim._engine.goals.calls import Percentiles
from optim._engine.reports.parts.blamed import BlameReport
from optim._engine.reports.parts.broken import BrokenPassReport
from optim._engine.reports.parts.drifted import DriftReport
from optim._engine.reports.parts.exported import ExportReport
from optim._engine.reports.parts.fields import Figure, Part
from optim._engine.reports.parts.laid_out import LayoutReport
from optim._engine.reports.parts.running import GenerationReport, GoalRatioReport, StartReport, ThroughputReport
from optim.backend import Check, KernelCount

REPORT_FILE = "report.json"


class BudgetReport(Part):
    """How much drift was accepted, and how much loss of the task metric."""

    max_drift: Figure = Field(description="largest drift of lossy passes; null with --lossless or --max-loss alone")
    lossless: bool
    metric: str | None = Field(default=None, description="task metric with its options")
    max_loss: str | None = Field(default=None, description="a share of the original's value as 1%, or an amount")
    max_mismatch: float = Field(default=0.0, description="share of an output's texts or whole numbers that may differ")


class OriginalReport(Part):
    """The model as it came."""

    path: str
    digest: str = Field(description="sha256 over graph, weights and session settings")
    latency_ms: Figure = Field(description="median; null where nothing was timed")
    size_bytes: int
    peak_memory_bytes: int | None = Field(description="of opening and running it, imports excluded")
    operators: dict[str, int] = Field(description="nodes by operator")
    operator_ms: dict[str, float] = Field(
        default={}, description="ms of a run by operator, as the runtime executes them; empty where nobody looked"
    )
    start: StartReport | None = Field(default=None, description="cold start; null where nothing was timed")
    batch: BatchDrift | None = Field(default=None, description="null where it was not looked at")
    generation: GenerationReport | None = Field(default=None, description="null where the goal is not generate")
    throughput: ThroughputReport | None = Field(default=None, description="null where it is not the goal")


class OutputReport(Part):
    """One output against the original's, the worst over all samples."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    compared: int = Field(description="elements compared, padding left out")
    relative_error: Figure = Field(description="the drift: the worst error of any slice, in scales of the original")
    max_abs: Figure = Field(
        description="largest absolute difference, in its unit, decides nothing; null for other than floats"
    )
    cosine: Figure = Field(description="of the flattened arrays, decides nothing; null for other than floats")
    sqnr_db: Figure = Field(
        description="signal to noise ratio in dB, decides nothing; null where outputs are equal or incomparable"
    )
    max_ulp: Figure = Field(description="largest distance in units in the last place; null for other than floats")
    top1_agreement: Figure = Field(description="share of rows whose largest element is at the same place")
    problem: str = ""
    limit: Figure = Field(default=None, description="what this output alone is held to; null where it is the budget")
    each: tuple[Figure, ...] = Field(
        default=(), description="relative_error of every sample, where several were compared"
    )
    overflowed: bool = Field(default=False, description="whether NaN or infinity appeared in it")
    above: dict[str, int] = Field(
        default={}, description="elements whose error is above so many scales of the original"
    )
    where: str = Field(default="", description="the slice whose drift is the worst; empty: the whole output")
    sample: str = Field(default="", description="the sample whose drift is the worst")
    rounding_excess: Figure = Field(default=None, description="times what rounding explains; up to 1 it is rounding")
    mismatched: Figure = Field(default=None, description="share of texts or whole numbers that differ; null for floats")
    accepted: bool = Field(default=False, description="whether the budget accepts that share: it is no drift then")
    unjudged: str = Field(default="", description="why samples could not show an error; empty where they could")

    @classmethod
    def of(cls, found: OutputComparison) -> OutputReport:
        """The report of a comparison; texts and whole numbers have no figures of floats."""
        values = asdict(found)
        if found.mismatched is not None:
            values |= {"max_abs": None, "cosine": None, "sqnr_db": None, "above": {}}
        return cls(**values)


class ShapeReport(Part):
    """Latency on one shape of the inputs."""

    shape: str = Field(description="e.g. input_ids 1x128")
    original_ms: float
    result_ms: float
    ratio: float
    ci: tuple[float, float] | None = Field(description="95 % interval of the ratio; null below six rounds")
    original_calls: Percentiles | None = Field(default=None, description="single calls of the original")
    result_calls: Percentiles | None = Field(default=None, description="single calls of the result, in the same race")


class TaskReport(Part):
    """The task metric of the result beside the original's, on the same samples."""

    metric: str
    higher_is_better: bool
    original: float
    value: float
    loss: float = Field(description="how much worse, in the metric's own unit; negative: better")
    standard_error: float | None = Field(description="of the loss, over samples; null for a single one")
    samples: int


class ResultReport(Part):
    """The model that is delivered."""

    digest: str
    latency_ms: Figure
    latency_ratio: Figure
    latency_ratio_ci: tuple[float, float] | None = Field(description="95 % interval; null below six rounds")
    size_bytes: int
    peak_memory_bytes: int | None
    executed_on: dict[str, float] = Field(description="share of the nodes by provider; empty where nobody looked")
    drift: DriftReport
    task: TaskReport | None = Field(default=None, description="null where no metric was asked for")
    operators: dict[str, int]
    operator_ms: dict[str, float] = Field(default={}, description="as the original's")
    outputs: tuple[OutputReport, ...]
    shapes: tuple[ShapeReport, ...]
    loader: bool = Field(default=True, description="whether load.py is there, and optim.load opens it")
    load_script: str = Field(default="", description="text of load.py where another runtime than onnxruntime opens it")
    requirements: tuple[str, ...] = Field(default=(), description="what load.py needs, as pip takes it")
    kernels: tuple[KernelCount, ...] = Field(default=(), description="empty where the runtime does not tell")
    start: StartReport | None = Field(default=None, description="cold start; null where nothing was timed")
    batch: BatchDrift | None = Field(default=None, description="null where it was not looked at")
    throughput: ThroughputReport | None = Field(default=None, description="null where it is not the goal")
    goal_ratio: GoalRatioReport | None = Field(default=None, description="null where the goal has no clock of its own")
    generation: GenerationReport | None = Field(default=None, description="as the original's")


class StepReport(Part):
    """One pass with one set of options, tried on one chain of passes."""

    stage: str
    pass_name: str = Field(validation_alias="pass", serialization_alias="pass")
    plugin: str
    options: dict[str, Any]
    on: tuple[str, ...] = Field(description="the passes before it")
    status: Literal["kept", "dropped", "not-applicable", "failed", "skipped"]
    reason: str
    ratio_to_original: Figure = Field(description="the best over the session settings tried with it")
    ratio_ci: tuple[float, float] | None = Field(default=None, description="95 % interval of it")
    size_bytes: int | None = Field(default=None, description="of the model after it")
    ratio_to_best: Figure = Field(description="ratio to the chain without it")
    drift: DriftReport | None
    task_value: Figure = Field(default=None, description="task metric, on the samples that candidates are explored on")
    task_loss: Figure = Field(default=None, description="how much worse than the original's; negative: better")
    seconds: float = Field(description="spent on it, timing excluded")
    counts: dict[str, int] = Field(description="what the pass says happened")
    notes: tuple[str, ...]
    not_here: bool = Field(
        default=False, description="not tried because of this machine or what is installed, whatever the model is"
    )
    printed: tuple[str, ...] = Field(default=(), description="what the pass printed")
    target: str = Field(default="", description="that it was tried for, where several competed")
    trace: str = Field(default="", description="of the exception that it ended with, the plugin's own lines first")
    blame: BlameReport | None = Field(
        default=None, description="which nodes make it wrong, where it was dropped for that and there was time to look"
    )


class PointReport(Part):
    """A model that was measured: a place in the plot of speed against drift."""

    number: int | None = Field(description="on the front of what can be had; --pick takes it; null beside the front")
    chain: tuple[str, ...] = Field(description="its passes with their options, in words")
    latency_ms: Figure
    latency_ratio: Figure
    latency_ratio_ci: tuple[float, float] | None
    size_bytes: int
    peak_memory_bytes: int | None
    drift: DriftReport
    task_value: Figure
    lossy: bool
    proven: bool = Field(description="on fresh rounds and all samples; else a quick look")
    within: bool = Field(description="within the budget")
    delivered: bool
    target: str = Field(default="", description="that it runs on, where several competed")


class TargetReport(Part):
    """One of several targets that competed."""

    name: str
    runtime: str = Field(description="what runs models there: a provider of onnxruntime, or a runtime of its own")
    status: Literal["delivered", "beaten", "failed", "absent"] = Field(description="absent: not usable on this machine")
    reason: str
    baseline: bool = Field(description="whether all ratios of the report are to the original there")
    original_ratio: Figure = Field(description="latency of the original there, to the baseline's")
    original_ratio_ci: tuple[float, float] | None = Field(description="95 % interval")
    original_drift: DriftReport | None = Field(description="of the original there to the baseline's outputs")
    best_ratio: Figure = Field(description="of the best that held there")
    versions: dict[str, str] = Field(description="of the libraries that run it")


class Assumption(Part):
    """What was assumed of an input that was synthesized."""

    input: str
    text: str


class FeedsReport(Part):
    """What the models were run on."""

    origin: str
    samples: int = Field(description="samples there are")
    held_out: int = Field(default=0, description="samples that no pass was fitted to; they are compared on first")
    compared: int = Field(description="samples the result was compared on")
    assumptions: tuple[Assumption, ...]


class DeviceReport(Part):
    """What an independent runtime says of the target: see ``docs/trust.md``."""

    by: str = Field(description="the runtime that computed the original too; empty where none could")
    drift: Figure = Field(description="of the outputs that count as right from those of that runtime")
    samples: int
    reason: str = Field(default="", description="why nobody checked the target; else empty")


class MachineReport(Part):
    """Where it was timed."""

    cpu: str
    cores: int = Field(description="processors that this process may use")
    machine_cores: int | None = Field(default=None, description="processors of the machine; null where unknown")
    quota: float | None = Field(
        default=None, description="processors' time that the container or batch system gives; null for no quota"
    )
    memory_bytes: int | None
    os: str
    python: str
    instruction_sets: tuple[str, ...] = Field(
        default=(), description="what kernels differ by, in the names of Linux; empty where unknown"
    )
    device: str = Field(default="", description="the accelerator that it ran on, with its driver; empty for none")


class SearchReport(Part):
    """What the search cost."""

    computed: int = Field(description="jobs run")
    from_cache: int = Field(description="answers taken from the cache")
    seconds: float
    budget_seconds: float | None = Field(description="of the whole run, given or announced; null for a repeated lock")


class Report(Part):
    """Everything a run found out."""

    status: Literal["improved", "prepared", "unchanged", "budget-missed", "failed"]
    reason: str = Field(description="the verdict in one sentence")
    broken: tuple[BrokenPassReport, ...] = Field(
        default=(), description="passes whose own code broke: what they would have gained is not known"
    )
    target: str = Field(description="where what is delivered runs")
    baseline: str = Field(default="", description="target that ratios are to, where several competed; else empty")
    targets: tuple[TargetReport, ...] = Field(default=(), description="those that competed; empty where none did")
    goal: str
    budget: BudgetReport
    original: OriginalReport
    export: ExportReport | None = Field(default=None, description="null where the source is an ONNX model")
    result: ResultReport | None = Field(description="null where nothing is delivered")
    nearest: PointReport | None = Field(
        default=None, description="where nothing keeps within the budget: what is nearest, kept aside in nearest/"
    )
    points: tuple[PointReport, ...] = Field(default=(), description="everything that was measured")
    key: str = Field(default="", description="of this run in the cache, for --pick")
    steps: tuple[StepReport, ...]
    feeds: FeedsReport
    tolerance: float = Field(description="largest drift that counts as lossless, measured on the original")
    device: DeviceReport | None = Field(
        default=None, description="what an independent runtime says of the target; null if the target is that runtime"
    )
    notes: tuple[str, ...]
    checks: tuple[Check, ...] = Field(default=(), description="of what was delivered")
    layouts: tuple[LayoutReport, ...] = Field(default=(), description="in which the result was written too")
    machine: MachineReport
    versions: dict[str, str]
    seed: int
    seconds: float
    search: SearchReport
    viewer: str = Field(default="", description="the target's command that shows the run folder DIR; empty: none")
    cached: bool = Field(description="whether the whole run was served from the cache")
    first_seconds: float | None = Field(default=None, description="of the run made before, if cached; else null")

    def as_json(self) -> str:
        """The text of ``report.json``."""
        return self.model_dump_json(by_alias=True, indent=2) + "\n"

    def _repr_html_(self) -> str:
        from optim._engine.reports.html import render_html
        from optim._engine.reports.notebook import framed

        return framed(render_html(self))

    def __str__(self) -> str:
        from optim._engine.reports.terminal import printed

        return printed(self)
