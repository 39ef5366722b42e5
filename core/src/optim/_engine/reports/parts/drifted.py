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
        description=(
            "the drift: the worst error of any slice, in units of how the original varies; 1 is as bad as a constant"
        )
    )
    at: str = Field(default="", description="output and slice with this drift; empty if rounding explains it")
    max_abs: Figure = Field(description="largest absolute difference, for information")
    cosine: Figure = Field(description="cosine of the flattened outputs, for information")
    foreseen: Figure = Field(
        default=None,
        description="limit that relative_error of a further sample stays below, estimated from the spread over samples",
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
