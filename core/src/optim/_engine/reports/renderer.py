"""A question of core to the plugin that shows reports to people: no run is decided by how its report looks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from optim._engine.plugins.plugin import EnginePart
from optim._engine.plugins.registry import load_registry
from optim.cli_kit.output import printable

if TYPE_CHECKING:
    from rich.console import Console

    from optim._engine.reports.schema import Report


class ReportRenderer(Protocol):
    """Renders reports for people. A class of it is made without arguments."""

    def write(self, report: Report, folder: Path) -> None:
        """Write ``report.html`` and, for a delivered model, its card into a run folder."""

    def show(self, report: Report, console: Console, *, page: str, verbose: bool, debug: bool) -> None:
        """Print the verdict and what explains it.

        Args:
            report: of a run.
            console: where to; rows are as wide as it is.
            page: where the rest stands.
            verbose: every pass with its reason, and what it said and printed.
            debug: the tracebacks of passes that failed.
        """

    def frame(self, report: Report) -> str:
        """The report as HTML inside a notebook."""

    def draw_lines(self, lines: Mapping[str, Sequence[tuple[float, float]]], title: str, across: str, unit: str) -> str:
        """The text of an SVG file with lines of figures against sizes; each point has a size and a figure."""


RENDERER: EnginePart[ReportRenderer] = EnginePart("renderer", "report")


def print_report(
    report: Report, console: Console, *, page: str = "report.html", verbose: bool = False, debug: bool = False
) -> None:
    """Prints a report as the plugin shows it; without the plugin, what broke, the verdict and the notes."""
    renderer = load_registry().find_part(RENDERER)
    if renderer is not None:
        renderer.show(report, console, page=page, verbose=verbose, debug=debug)
        return
    broken = (str(one.diagnosis) for one in report.broken)
    for line in (*broken, f"{report.status}: {report.reason}", *(f"note: {note}" for note in report.notes)):
        console.print(printable(line), markup=False, highlight=False)
