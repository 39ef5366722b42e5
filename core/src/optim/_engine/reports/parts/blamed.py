"""The blame of a step in ``report.json``: which nodes make what it made differ from what it was given."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from pydantic import Field

from optim._engine.reports.parts.fields import Figure, Part

if TYPE_CHECKING:
    from optim._engine.diagnosis.blame_job import Answer

_MOST_PARTS = 3
"""Of a report; ``optim blame`` names all."""


class BlamedReport(Part):
    """Nodes that are given what the model before the step is given, and make something else."""

    nodes: tuple[str, ...] = Field(description="in graph order; one, or those that do the same in another way")
    operators: tuple[str, ...]
    reference_nodes: tuple[str, ...] = Field(description="what computes the same in the model before the step")
    value: str = Field(description="what they make")
    reference_value: str
    given: tuple[str, ...] = Field(description="values that they are given")
    local: Figure = Field(description="relative L2 of the value given the reference's; null: beyond all numbers")
    limit: float = Field(description="what their precision explains")
    alone: Figure = Field(description="drift of the outputs with this error alone; null: beyond all numbers")
    max_abs: float
    ulp: Figure = Field(description="largest distance in units in the last place; null for other than floats")
    nearer: str = Field(description="reference or other, whichever is nearer to float64; empty where unknown")
    errors: tuple[float, float] | None = Field(description="relative L2 of the reference's and the other's to float64")
    precision: str = Field(description="float, half or int8")
    problem: str = Field(description="e.g. how many elements became infinite")
    path: tuple[str, ...] = Field(description="nodes from here to an output")
    edges: tuple[float, ...] = Field(description="of a histogram of the value")
    counts: tuple[tuple[int, ...], tuple[int, ...]] | None = Field(description="of the reference and of the other")


class NearNodeReport(Part):
    """A node of the drawing."""

    name: str
    operator: str
    reads: tuple[str, ...]
    makes: tuple[str, ...]
    blamed: bool
    error: Figure = Field(description="relative L2 of its worst output; null: unknown, or lost")
    lost: bool


class NearReport(Part):
    """The graph around what is blamed."""

    nodes: tuple[NearNodeReport, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    left_out: int = Field(description="nodes of the graph beside them")


class BlameReport(Part):
    """What was found when the model after the step was held against the one before it."""

    blamed: tuple[BlamedReport, ...] = Field(description="the worst first; empty: no node is off by more than it may")
    drift: Figure = Field(description="relative L2 between both; null where an output is lost")
    matched: int = Field(description="values that both have")
    values: int = Field(description="values of the model after the step")
    growth: tuple[tuple[str, Figure], ...] = Field(description="relative L2 of values in graph order; null: lost")
    notes: tuple[str, ...] = Field(description="what could not be compared, and why")
    near: NearReport


def blame_report(found: Answer) -> BlameReport:
    """The report of a blame."""
    return BlameReport(
        blamed=tuple(BlamedReport(**asdict(one)) for one in found.blamed[:_MOST_PARTS]),
        drift=found.drift,
        matched=sum(found.matched.values()),
        values=found.values,
        growth=found.growth,
        notes=found.notes,
        near=NearReport(**asdict(found.near)),
    )
