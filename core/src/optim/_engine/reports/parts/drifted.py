"""How far outputs are from the original's, as ``report.json`` has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from optim._engine.reports.parts.fields import Figure, Part

if TYPE_CHECKING:
    from optim._engine.gate.drift import Drift


class DriftReport(Part):
    """How far outputs are from the original's, each figure of the worst output."""

    relative_error: Figure = Field(description="||other - original|| / ||original||, >= 0")
    max_abs: Figure = Field(description="largest absolute difference, in the output's unit")
    cosine: Figure = Field(description="of the flattened outputs, 1 is the same direction")
    foreseen: Figure = Field(
        default=None, description="relative_error that a further sample stays below, from the spread of those measured"
    )


def drift_report(drift: Drift) -> DriftReport:
    """How far outputs are, beside what a further sample may be."""
    return DriftReport(
        relative_error=drift.relative_error,
        max_abs=drift.max_abs,
        cosine=drift.cosine,
        foreseen=max(drift.relative_error, drift.foreseen),
    )
