"""The base of every part of ``report.json``, and the part that most others have: the distance of outputs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

if TYPE_CHECKING:
    from optim._engine.gate.drift import Drift


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


Figure = Annotated[float | None, BeforeValidator(_finite)]
"""A number, or null where there is none or where it is not finite."""


class Part(BaseModel):
    """One object of the report; unknown fields are refused."""

    # built when first used: a report has few of its parts, and classes that nobody uses cost 0.02 s of every command
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, defer_build=True)


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
