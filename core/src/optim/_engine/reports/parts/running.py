"""Parts of a report: how a model begins, and what a batch and padding do to its answers."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from pydantic import Field

from optim._engine.reports.parts.fields import Figure, Part

if TYPE_CHECKING:
    from optim._engine.jobs.start_up import StartUp
    from optim._engine.search.state import LaneResult, Ratio


class BatchReport(Part):
    """How far a sample's answer moves with what it is run with, relative L2 of the worst output."""

    batched: Figure = Field(description="between a sample alone and in a batch; null where it was not measured")
    padded: Figure = Field(description="between a sample as it is and with masked positions behind it; null likewise")
    rows: int = Field(description="samples in the batch")
    padding: int = Field(description="positions that were added")
    notes: tuple[str, ...] = Field(description="why something was not measured")


class StartReport(Part):
    """What comes before a model is as fast as it gets; other models may have been opened beside it."""

    open_ms: float = Field(description="until it was open, imports of the runtime excluded")
    first_ms: float = Field(description="the first call")
    run_ms: float = Field(description="a later call on the same inputs")
    open_memory_bytes: int = Field(description="peak while it was opened, imports excluded")


class GoalRatioReport(Part):
    """What the goal's own clock found of the result, to the original's; both timed in every round."""

    value: float
    ci: tuple[float, float] = Field(description="95 % interval")
    rounds: int


def batch_report(timed: LaneResult | None) -> BatchReport | None:
    """Of a lane; None where nobody looked."""
    found = timed.ready.batch if timed and timed.ready else None
    return BatchReport(**asdict(found)) if found else None


def goal_ratio_report(found: Ratio | None) -> GoalRatioReport | None:
    """Of what is delivered; None where the goal has no clock of its own."""
    return GoalRatioReport(value=found.value, ci=(found.low, found.high), rounds=found.rounds) if found else None


def start_report(found: StartUp | None) -> StartReport | None:
    """Of a lane; None where nothing was timed."""
    if found is None or not found.first_s:
        return None
    return StartReport(
        open_ms=1e3 * found.open_s,
        first_ms=1e3 * found.first_s[0],
        run_ms=1e3 * found.run_s[0],
        open_memory_bytes=found.open_memory_bytes,
    )
