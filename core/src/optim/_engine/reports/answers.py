"""What ``verify``, ``bench`` and ``export`` answer, field by field: with ``--json``, and in Python."""

from __future__ import annotations

import csv
import html
import io
import statistics
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from optim._engine.goals.calls import Percentiles
from optim._engine.plugins.registry import load_registry
from optim._engine.reports import words
from optim._engine.reports.renderer import RENDERER
from optim._engine.reports.schema import (
    DriftReport,
    ExportStepReport,
    Figure,
    GenerationReport,
    GoalRatioReport,
    Interval,
    OutputReport,
    Part,
    PeakMemory,
    ThroughputReport,
)
from optim.cli_kit.output import printable, size_text, tabbed

if TYPE_CHECKING:
    import onnxruntime

    from optim.decoders import Decoder


class TabledAnswer(Part):
    """An answer that is a table: in a notebook, and with tabs between the cells where it is printed."""

    @abstractmethod
    def _table(self) -> tuple[str, Sequence[str], Sequence[Sequence[str]]]:
        """Heading, columns and rows."""

    def as_csv(self) -> str:
        """Returns the rows as CSV with a header."""
        _, columns, rows = self._table()
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([columns, *rows])
        return text.getvalue()

    def _repr_html_(self) -> str:
        heading, columns, rows = self._table()
        head = "".join(f"<th>{html.escape(column)}</th>" for column in columns)
        body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
        return f"<p><b>{html.escape(heading)}</b></p><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def __str__(self) -> str:
        heading, columns, rows = self._table()
        return "\n".join([printable(heading), *map(tabbed, (columns, *rows))])


class ComparedFeeds(Part):
    """What both models were run on."""

    origin: str
    samples: int = Field(description="number of samples")
    compared: int = Field(description="number of samples on which the models were compared")
    note: str = Field(default="", description="limit of synthesized samples; empty if there is none")


class ComparedTask(Part):
    """The task metric of the other model beside the reference's, on the same samples."""

    metric: str
    value: float
    original: float
    loss: float = Field(description="how much worse OTHER is, in the unit of the metric; negative if it is better")
    error: float | None = Field(description="standard error of the loss, over samples; null with one sample")
    samples: int


class Verification(TabledAnswer):
    """Comparison of a model with a reference."""

    within: bool = Field(description="true if every output was judged, and drift and loss are within the limits")
    judged: bool = Field(description="true if the samples can show a difference in every output")
    reason: str = Field(description="reason why within is false; else empty")
    tolerance: float = Field(description="largest drift that rounding explains, measured on the reference")
    limit: Figure = Field(description="largest accepted drift; null if there is no limit")
    lossless: bool = Field(description="true if rounding explains the drift")
    drift: DriftReport
    outputs: tuple[OutputReport, ...]
    feeds: ComparedFeeds
    task: ComparedTask | None = Field(default=None, description="task metric; null without --metric")
    notes: tuple[str, ...] = Field(default=(), description="notes about the reference and its outputs")

    @property
    def verdict(self) -> str:
        """One line, such as ``equal up to rounding: drift 1e-07 (rounding explains 0.0001)``."""
        about = f"; {self.feeds.note}" if self.feeds.note else ""
        if not self.within:
            return f"{'beyond the limit' if self.judged else 'not judged'}: {self.reason}{about}"
        limit = f"within the limit of {self.limit:.3g}" if self.limit is not None else "within the limit"
        said = "equal up to rounding" if self.lossless else limit
        drift = words.figure_text(self.drift.relative_error) + (f" at {self.drift.at}" if self.drift.at else "")
        return f"{said}: drift {drift} (rounding explains {self.tolerance:.2g}){about}"

    def _table(self) -> tuple[str, Sequence[str], Sequence[Sequence[str]]]:
        rows = [
            (
                output.name,
                "x".join(map(str, output.shape)),
                words.figure_text(output.relative_error),
                words.worst_text(output),
                words.figure_text(output.max_abs),
                words.figure_text(output.cosine),
                "; ".join(words.output_texts(output)),
            )
            for output in self.outputs
        ]
        return self.verdict, ("output", "shape", "drift", "worst at", "max abs", "cosine", ""), rows


class TimedShape(Part):
    """A model on one shape of the inputs."""

    shape: str = Field(description="e.g. input_ids 1x128")
    latency_ms: float
    ratio: float
    ci: Interval
    calls_ms: Percentiles | None = Field(default=None, description="latency of single calls; null if not recorded")


class TimedModel(Part):
    """One of the models that were timed."""

    model: str = Field(description="model as the user named it")
    target: str = Field(default="", description="target of this row; empty with one target")
    error: str | None = Field(default=None, description="reason why it does not run; else null")
    not_here: bool = Field(default=False, description="true if it does not run because this machine lacks the target")
    latency_ms: float | None = Field(default=None, description="milliseconds, the geometric mean over the shapes")
    size_bytes: int | None = None
    peak_memory_bytes: PeakMemory = None
    latency_ratio: float | None = Field(
        default=None, description="latency divided by that of the first model; below 1 is faster"
    )
    latency_ratio_ci: Interval = None
    rounds: int = 0
    shapes: tuple[TimedShape, ...] = ()
    throughput: ThroughputReport | None = Field(default=None, description="best throughput; null without --throughput")
    generation: GenerationReport | None = Field(default=None, description="times of an answer; null without --generate")
    answer_ratio: GoalRatioReport | None = Field(
        default=None, description="time of the answer divided by that of the first model"
    )


class Benchmark(TabledAnswer):
    """Times of models in turns, relative to the first one."""

    target: str = Field(description="target; several with commas")
    feeds: str = Field(description="origin of the samples, as text")
    models: tuple[TimedModel, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns. For one model on several targets, the first column is the target."""
        return tuple(dict.fromkeys(name for timed in self.models for name in _cells(timed)))

    def rows(self) -> list[tuple[str, ...]]:
        """Returns a row for each model, with the cells of ``columns``."""
        columns = self.columns
        return [tuple(cells.get(name, "") for name in columns) for cells in map(_cells, self.models)]

    def _table(self) -> tuple[str, Sequence[str], Sequence[Sequence[str]]]:
        return f"timed on {self.target}, {self.feeds}", self.columns, self.rows()


def _cells(timed: TimedModel) -> dict[str, str]:
    """The cells of a model by column; what nobody asked for has no column."""
    found = {"target": timed.target} if timed.target else {}
    found |= {"model": timed.model, "ms": "", "ratio": "", "95 % interval": timed.error or ""}
    if timed.latency_ms is not None and timed.latency_ratio is not None:
        interval = timed.latency_ratio_ci
        found |= {"ms": f"{timed.latency_ms:.3f}", "ratio": f"{timed.latency_ratio:.3f}"}
        found["95 % interval"] = _interval_text(interval) if interval is not None else "too few rounds"
    found |= dict(zip(("p50", "p90", "p95", "p99"), percentile_texts(timed), strict=True))
    found |= {"MB": _megabytes(timed.size_bytes), "peak MB": _megabytes(timed.peak_memory_bytes)}
    found["rounds"] = str(timed.rounds)
    if (served := timed.throughput) is not None:
        late = served.limit_ms is not None and served.calls_ms.p95 > served.limit_ms
        found |= {"samples a second": f"{served.samples_per_second:.4g}", "how": served.how}
        found["p95 there"] = f"{served.calls_ms.p95:.3g}{', too long' if late else ''}"
    answer, ratio = timed.generation, timed.answer_ratio
    if answer is not None and ratio is not None:
        found["first token ms"] = f"{answer.first_ms:.1f}"
        found |= {f"tokens/s at {depth.tokens}": f"{depth.tokens_per_s:.1f}" for depth in answer.depths}
        found[f"past MB at {answer.depths[-1].tokens}"] = f"{answer.depths[-1].past_bytes / 1e6:.2f}"
        found["answer ms"] = f"{answer.answer_ms:.1f}"
        found["answer ratio"] = f"{ratio.value:.3f}" + (f" {_interval_text(ratio.ci)}" if ratio.ci else "")
    return found


def _interval_text(interval: tuple[float, float]) -> str:
    return f"[{interval[0]:.3f}, {interval[1]:.3f}]"


def percentile_texts(timed: TimedModel) -> tuple[str, ...]:
    """What 50, 90, 95 and 99 of 100 calls keep within, in ms; of several shapes the geometric mean, as of latency."""
    calls = [shape.calls_ms for shape in timed.shapes if shape.calls_ms is not None]
    if not calls:
        return "", "", "", ""
    each = zip(*((one.p50, one.p90, one.p95, one.p99) for one in calls), strict=True)
    return tuple(f"{statistics.geometric_mean(values):.3f}" for values in each)


def _megabytes(size_bytes: int | None) -> str:
    if not size_bytes:
        return ""
    megabytes = size_bytes / 1e6
    return f"{megabytes:.1f}" if megabytes >= 1 else f"{megabytes:.2g}"


class ExportedComponent(Part):
    """A graph of the folder, and how far it is from its source."""

    name: str
    file: str
    size_bytes: int
    inputs: tuple[dict[str, Any], ...]
    outputs: tuple[dict[str, Any], ...]
    drift: Figure = Field(description="drift of the worst output over all trials")
    trials: tuple[str, ...] = Field(description="shapes, padding and lengths of the past on which it was compared")
    skipped: tuple[str, ...] = Field(description="trials that the source refuses, with the reason")
    tokens: int = Field(description="number of compared tokens of greedy generation")


class ExportedFolder(TabledAnswer):
    """Result of an export."""

    source: str
    output: str = Field(description="folder that was written")
    facts: dict[str, Any] = Field(description="facts about the source: kind, task, tokens that begin and end a text")
    components: tuple[ExportedComponent, ...]
    steps: tuple[ExportStepReport, ...]
    notes: tuple[str, ...]
    peak_memory_bytes: int
    seconds: float

    def load(self) -> onnxruntime.InferenceSession | Decoder:
        """Opens the folder, as ``optim.load`` does."""
        from optim._engine.runs.load import load

        return load(Path(self.output))

    def _table(self) -> tuple[str, Sequence[str], Sequence[Sequence[str]]]:
        rows = [
            (part.name, size_text(part.size_bytes), words.figure_text(part.drift), str(len(part.trials)), part.file)
            for part in self.components
        ]
        return f"exported from {self.source}", ("component", "size", "drift", "trials", "file"), rows


_GRID_COLUMNS = ("model", "ms", "p50", "p90", "p95", "p99", "ratio", "low", "high", "samples a second", "error")


class GridPoint(Part):
    """One combination of sizes."""

    sizes: dict[str, int] = Field(description="by dimension")
    error: str | None = Field(description="why nothing could be timed there; else null")
    models: tuple[TimedModel, ...]


class GridBenchmark(TabledAnswer):
    """Models timed on a grid of sizes; ratios are to the first of them at the same point."""

    target: str
    points: tuple[GridPoint, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The dimensions, then the figures of a model; where it was timed on several targets, which one too."""
        names = tuple(self.points[0].sizes) if self.points else ()
        return (*names, *(("target",) if self._has_targets else ()), *_GRID_COLUMNS)

    @property
    def _has_targets(self) -> bool:
        return any(timed.target for point in self.points for timed in point.models)

    @property
    def has_errors(self) -> bool:
        """Whether something could not be timed somewhere."""
        return any(point.error or any(timed.error for timed in point.models) for point in self.points)

    def rows(self) -> list[tuple[str, ...]]:
        """A row for each model at each point, as :attr:`columns` says; one for a point that failed."""
        found = []
        for point in self.points:
            sizes = tuple(map(str, point.sizes.values()))
            if point.error:
                found.append((*sizes, *[""] * (len(self.columns) - len(sizes) - 1), point.error))
            found += [(*sizes, *filter(None, [timed.target]), *_row(timed)) for timed in point.models]
        return found

    def as_svg(self) -> str:
        """Latency against the first dimension with several sizes; a line for each model and the rest of the sizes."""
        names = list(self.points[0].sizes)
        across = next((n for n in names if len({point.sizes[n] for point in self.points}) > 1), names[0])
        series: dict[str, list[tuple[float, float]]] = {}
        for point in self.points:
            rest = " ".join(f"{name}={size}" for name, size in point.sizes.items() if name != across)
            for timed in point.models:
                if timed.latency_ms is not None:
                    about = " ".join(filter(None, (timed.model, timed.target, rest)))
                    series.setdefault(about, []).append((point.sizes[across], timed.latency_ms))
        renderer = load_registry().part(RENDERER, "a plot cannot be drawn")
        return renderer.draw_lines(series, f"latency by {across} on {self.target}", across, "ms")

    def _table(self) -> tuple[str, Sequence[str], Sequence[Sequence[str]]]:
        return f"timed on {self.target}", self.columns, self.rows()


def _row(timed: TimedModel) -> tuple[str, ...]:
    low, high = timed.latency_ratio_ci or (None, None)
    figures = [timed.latency_ratio, low, high]
    return (
        timed.model,
        "" if timed.latency_ms is None else f"{timed.latency_ms:.4g}",
        *percentile_texts(timed),
        *("" if figure is None else f"{figure:.3f}" for figure in figures),
        "" if timed.throughput is None else f"{timed.throughput.samples_per_second:.4g}",
        timed.error or "",
    )
