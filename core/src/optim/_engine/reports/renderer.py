"""A question of core to the plugin that shows reports to people: no run is decided by how its report looks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from optim._engine.plugins.plugin import EnginePart

if TYPE_CHECKING:
    from optim._engine.reports.schema import Report


class ReportRenderer(Protocol):
    """Renders reports for people. A class of it is made without arguments."""

    def write(self, report: Report, folder: Path) -> None:
        """Write ``report.html`` and, for a delivered model, its card into a run folder."""

    def frame(self, report: Report) -> str:
        """The report as HTML inside a notebook."""

    def draw_lines(self, lines: Mapping[str, Sequence[tuple[float, float]]], title: str, across: str, unit: str) -> str:
        """The text of an SVG file with lines of figures against sizes; each point has a size and a figure."""


RENDERER: EnginePart[ReportRenderer] = EnginePart("renderer", "report")
