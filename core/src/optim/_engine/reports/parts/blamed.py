"""The blame of a step in ``report.json``: which nodes make what it made differ from what it was given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from optim._engine.diagnosis.found import Blamed, Neighbourhood
from optim._engine.reports.parts.fields import Figure, Part

if TYPE_CHECKING:
    from optim._engine.diagnosis.blame_job import Answer

_MOST_PARTS = 3
"""Of a report; ``optim blame`` names all."""


class BlameReport(Part):
    """What was found when the model after the step was held against the one before it."""

    blamed: tuple[Blamed, ...] = Field(description="the worst first; empty: no node is off by more than it may")
    drift: Figure = Field(description="relative L2 between both; null where an output is lost")
    matched: int = Field(description="values that both have")
    values: int = Field(description="values of the model after the step")
    growth: tuple[tuple[str, Figure], ...] = Field(description="relative L2 of values in graph order; null: lost")
    notes: tuple[str, ...] = Field(description="what could not be compared, and why")
    near: Neighbourhood = Field(description="the graph around what is blamed")


def blame_report(found: Answer) -> BlameReport:
    """The report of a blame."""
    return BlameReport(
        blamed=found.blamed[:_MOST_PARTS],
        drift=found.drift,
        matched=sum(found.matched.values()),
        values=found.values,
        growth=found.growth,
        notes=found.notes,
        near=found.near,
    )
