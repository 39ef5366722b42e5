"""How results are shown in a notebook: the report as its page, figures as a table."""

from __future__ import annotations

import html
from collections.abc import Sequence

_HEIGHT_PX = 640
"""The verdict, the figures and the first plot of a report; the rest is scrolled to."""


def framed(page: str) -> str:
    """A whole page inside a notebook; its styles and names stay its own, and nothing in it is run."""
    source = html.escape(page, quote=True)
    return (
        f'<iframe srcdoc="{source}" sandbox="" title="optim report" '
        f'style="width: 100%; height: {_HEIGHT_PX}px; border: 1px solid #8884; border-radius: 6px"></iframe>'
    )


def table(heading: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A heading and a table; every text is escaped."""
    head = "".join(f"<th>{html.escape(column)}</th>" for column in columns)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<p><b>{html.escape(heading)}</b></p><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
