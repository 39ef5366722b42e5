"""What a recorder tells: where the time of a pipeline goes, and what became of its modules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from optim.engine.record import Part, TabledAnswer, figure_text


class ModuleTimes(Part):
    """One module of a pipeline."""

    name: str
    kind: str = Field(description="torch or onnxruntime")
    calls: int
    latency_ms: float | None = Field(description="mean latency of a call; null if it was not called")
    share: float | None = Field(description="share of the time of the pipeline, 0..1; null if the pipeline had no call")
    note: str = Field(default="", description="reason why calls could not be kept; else empty")


class RecordedPipeline(TabledAnswer):
    """Where the time of a pipeline goes."""

    calls: int = Field(description="calls of the pipeline")
    latency_ms: float | None = Field(description="mean latency of a call of the pipeline; null without a call")
    modules: tuple[ModuleTimes, ...]
    notes: tuple[str, ...] = ()

    @property
    def other(self) -> float | None:
        """Share of the time that no module takes."""
        shares = [one.share for one in self.modules if one.share is not None]
        return max(0.0, 1.0 - sum(shares)) if shares else None

    def _table(self) -> tuple[str, Sequence[str], Sequence[Sequence[str]]]:
        calls = f"{self.calls} call{'s' * (self.calls != 1)} of the pipeline"
        heading = f"{calls}, {_ms(self.latency_ms)} each" if self.latency_ms is not None else calls
        rows = [
            (one.name, one.kind, str(one.calls), _ms(one.latency_ms), _percent(one.share), one.note)
            for one in self.modules
        ]
        rows.append(("(rest of the pipeline)", "", "", "", _percent(self.other), "; ".join(self.notes)))
        return heading, ("module", "kind", "calls", "per call", "share", ""), rows


class OptimizedModule(Part):
    """What became of one module."""

    name: str
    kind: str
    status: Literal["swapped", "taken back", "stays"]
    reason: str = Field(description="reason why it is not swapped; else the verdict of its run")
    latency_ratio: float | None = Field(default=None, description="latency divided by the original's, in its own run")
    ratio_in_place: float | None = Field(default=None, description="the same inside the pipeline")
    drift: float | None = Field(default=None, description="drift from the outputs that were recorded")
    folder: str = Field(default="", description="its run folder; empty if there was no run")


class OptimizedPipeline(TabledAnswer):
    """A pipeline whose modules were optimized in place."""

    modules: tuple[OptimizedModule, ...]
    calls: int = Field(description="calls of the pipeline that were repeated and compared")
    drift: float = Field(description="largest drift of what the pipeline returns")
    latency_ratio: float | None = Field(
        description="latency of the pipeline divided by the original's; null if none swapped"
    )
    notes: tuple[str, ...] = ()

    @property
    def swapped(self) -> tuple[str, ...]:
        """Names of the modules that were replaced."""
        return tuple(one.name for one in self.modules if one.status == "swapped")

    def _table(self) -> tuple[str, Sequence[str], Sequence[Sequence[str]]]:
        if self.swapped:
            heading = (
                f"the pipeline takes {figure_text(self.latency_ratio)} times as long as before;"
                f" drift {figure_text(self.drift)} on {self.calls} calls"
            )
        else:
            heading = "no module was swapped; the pipeline is as it was"
        rows = [
            (one.name, one.status, *map(_figure, (one.latency_ratio, one.ratio_in_place, one.drift)), one.reason)
            for one in self.modules
        ]
        return heading, ("module", "", "ratio", "in place", "drift", "reason"), rows


def _ms(value: float | None) -> str:
    return "" if value is None else f"{value:.3g} ms"


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:.0%}"


def _figure(value: float | None) -> str:
    return "" if value is None else str(figure_text(value))
