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

    blamed: tuple[Blamed, ...] = Field(
        description="nodes to blame, the worst first; empty if no node exceeds its limit"
    )
    drift: Figure = Field(description="relative L2 between both models; null if an output is missing")
    matched: int = Field(description="number of values that both models have")
    values: int = Field(description="number of values of the model after the step")
    growth: tuple[tuple[str, Figure], ...] = Field(
        description="relative L2 of values in graph order; null if a value is missing"
    )
    notes: tuple[str, ...] = Field(description="values that could not be compared, with the reason")
    near: Neighbourhood = Field(description="the graph around the blamed nodes")


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
