"""How far outputs are from the original's, as ``report.json`` has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from optim._engine.reports.parts.fields import Figure, Part

if TYPE_CHECKING:
    from optim._engine.gate.drift import Drift


class DriftReport(Part):
    """How far outputs are from the original's, each figure of the worst output."""

    relative_error: Figure = Field(
        description="the drift: the worst error of any slice, in scales of the original; 1 is as bad as a constant"
    )
    at: str = Field(
        default="", description="the output and the slice that the drift is of; empty: rounding explains it"
    )
    max_abs: Figure = Field(description="largest absolute difference, in the output's unit; decides nothing")
    cosine: Figure = Field(description="of the flattened outputs, 1 is the same direction; decides nothing")
    foreseen: Figure = Field(
        default=None, description="relative_error that a further sample stays below, from the spread of those measured"
    )


def drift_report(drift: Drift, at: str = "") -> DriftReport:
    """How far outputs are, beside what a further sample may be.

    Args:
        drift: of the worst output.
        at: which output and slice that is.
    """
    return DriftReport(
        relative_error=drift.relative_error,
        at=at,
        max_abs=drift.max_abs,
        cosine=drift.cosine,
        foreseen=max(drift.relative_error, drift.foreseen),
    )
