"""What became of a result in the layout of a program that is not optim's: ``delivery.json``, and a part of a report."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from optim._engine.reports.parts.figures import Figure, Part

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
