"""Parts of a report: how a model begins, and what the clock of a goal found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from optim._engine.reports.parts.fields import Part

if TYPE_CHECKING:
    from optim._engine.jobs.start_up import StartUp
    from optim._engine.search.state import Ratio


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
