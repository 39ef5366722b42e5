"""What ``optim bench --grid`` answers: a table, the same as CSV, and a plot."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from optim._engine.plugins.registry import load_registry
from optim._engine.reports.answers import Answer, TabledAnswer, TimedModel, csv_text, percentile_texts
from optim._engine.reports.renderer import RENDERER

_COLUMNS = ("model", "ms", "p50", "p90", "p95", "p99", "ratio", "low", "high", "samples a second", "error")


class GridPoint(Answer):
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
        return (*names, *(("target",) if self._has_targets else ()), *_COLUMNS)

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

    def as_csv(self) -> str:
        """The rows as CSV, with a head."""
        return csv_text(self.columns, self.rows())

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
