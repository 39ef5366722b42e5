"""The renderer of core: files of a run folder that people read, the report elsewhere, and a plot of a bench."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from pathlib import Path

from optim.engine.report import PAGE_FILE, Report
from optim_plugins.drawing import standalone
from optim_plugins.report.card import CARD_FILE, model_card
from optim_plugins.report.lines import line_plot
from optim_plugins.report.page import render_html
from optim_plugins.report.terminal import print_report

_HEIGHT_PX = 640
"""The verdict, the figures and the first plot of a report; the rest is scrolled to."""


class PageRenderer:
    """Renders a report as an HTML page, a model card, and lines of a terminal."""

    def write(self, report: Report, folder: Path) -> None:
        """Write ``report.html`` and, for a delivered model, its card into a run folder."""
        (folder / PAGE_FILE).write_text(render_html(report), encoding="utf-8")
        if report.result is not None:
            (folder / CARD_FILE).write_text(model_card(report), encoding="utf-8")

    show = staticmethod(print_report)

    def frame(self, report: Report) -> str:
        """The page inside a notebook; its styles and names stay its own, and nothing in it is run."""
        source = html.escape(render_html(report), quote=True)
        return (
            f'<iframe srcdoc="{source}" sandbox="" title="optim report" '
            f'style="width: 100%; height: {_HEIGHT_PX}px; border: 1px solid #8884; border-radius: 6px"></iframe>'
        )

    def draw_lines(self, lines: Mapping[str, Sequence[tuple[float, float]]], title: str, across: str, unit: str) -> str:
        """The text of an SVG file with lines of figures against sizes."""
        return standalone(line_plot(lines, title, across, unit))
