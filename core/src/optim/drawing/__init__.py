"""Plots and graphs as SVG, as the report of a run has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optim.drawing.svg import NARROW as NARROW
    from optim.drawing.svg import WIDE as WIDE
    from optim.drawing.svg import Canvas as Canvas
    from optim.drawing.svg import Scale as Scale
    from optim.drawing.svg import bar as bar
    from optim.drawing.svg import dot as dot
    from optim.drawing.svg import drawing as drawing
    from optim.drawing.svg import line as line
    from optim.drawing.svg import shortened as shortened
    from optim.drawing.svg import standalone as standalone
    from optim.drawing.svg import text as text
else:
    from optim._engine.handed_on import hand_on

    __getattr__, __dir__, __all__ = hand_on(__name__)
