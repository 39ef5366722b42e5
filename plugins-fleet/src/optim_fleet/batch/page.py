"""``index.html`` of a batch: a row for each run, with its front and a link to its report."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from optim.cli_kit import printable
from optim.engine.fleet import figure_text, ratio_text
from optim_fleet.batch.index import Index, PointRow

if TYPE_CHECKING:
    from jinja2 import Template

PAGE_FILE = "index.html"
_SHOWN_POINTS = 4
"""Of a front; the report has all of them."""


def write_page(index: Index, folder: Path) -> None:
    """Replace the page of a batch's folder in one step."""
    temporary = folder / f".{PAGE_FILE}"
    try:
        texts = {"figure_text": figure_text, "ratio_text": ratio_text, "front_text": front_text}
        temporary.write_text(_template().render(index=index, **texts), encoding="utf-8")
        os.replace(temporary, folder / PAGE_FILE)
    finally:
        temporary.unlink(missing_ok=True)


def front_text(points: tuple[PointRow, ...]) -> str:
    """The points that ``--pick`` takes, e.g. ``0.38 at 0.071, 0.87 at 3.1e-07``: ratio at drift."""
    shown = [f"{ratio_text(point.ratio)} at {figure_text(point.drift)}" for point in points[:_SHOWN_POINTS]]
    more = len(points) - len(shown)
    return ", ".join(shown) + (f", {more} more" if more else "")


@cache
def _template() -> Template:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("optim_fleet.batch", ""),
        autoescape=True,
        finalize=lambda value: printable(value) if type(value) is str else value,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("index.html.j2")
