"""Parts of a report: how a model begins, what the clock of a goal found, what answers take, what it serves at best."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from pydantic import Field

from optim._engine.goals.calls import Percentiles, Throughput
from optim._engine.reports.parts.fields import Part

if TYPE_CHECKING:
    from optim._engine.jobs.start_up import StartUp
    from optim.goal import GenerationTimes, Ratio


class StartReport(Part):
    """What comes before a model is as fast as it gets; other models may have been opened beside it."""

    open_ms: float = Field(description="until it was open, imports of the runtime excluded")
    first_ms: float = Field(description="the first call")
    run_ms: float = Field(description="a later call on the same inputs")
    open_memory_bytes: int = Field(description="peak while it was opened, imports excluded")


class GoalRatioReport(Part):
    """What the goal's own clock found of the result, to the original's; both timed in every round."""

    value: float
    ci: tuple[float, float] | None = Field(description="95 % interval; null below six rounds")
    rounds: int


def goal_ratio_report(found: Ratio | None) -> GoalRatioReport | None:
    """Of what is delivered; None where the goal has no clock of its own."""
    return GoalRatioReport(value=found.value, ci=found.interval, rounds=found.rounds) if found else None


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


class DepthReport(Part):
    """One token behind a past."""

    tokens: int = Field(description="of the past")
    tokens_per_s: float
    past_bytes: int = Field(description="memory of the past while the token is computed")


class GenerationReport(Part):
    """One answer to one prompt, one row at a time."""

    prompt: int = Field(description="tokens of the prompt")
    new: int = Field(description="tokens of the answer")
    first_ms: float = Field(description="until the first token")
    answer_ms: float = Field(description="the whole answer, what is between the depths interpolated")
    depths: tuple[DepthReport, ...]


def generation_report(found: GenerationTimes | None) -> GenerationReport | None:
    """Of a lane; None where the goal is another."""
    if found is None:
        return None
    rows = zip(found.depths, found.token_s, found.past_bytes, strict=True)
    depths = tuple(DepthReport(tokens=n, tokens_per_s=1 / s, past_bytes=b) for n, s, b in rows)
    first, answer = 1e3 * found.first_s, 1e3 * found.seconds
    return GenerationReport(prompt=found.prompt, new=found.new, first_ms=first, answer_ms=answer, depths=depths)


class TriedReport(Part):
    """A way to run the model that was looked at for some tenths of a second."""

    how: str = Field(description="e.g. batch 8, 2 sessions of 1 thread")
    samples_per_second: float | None
    p95_ms: float | None
    problem: str = Field(description="why it has no figures, or was not taken; else empty")


class ThroughputReport(Part):
    """What a model does at best on this machine."""

    how: str = Field(description="batch, sessions and threads that were chosen")
    batch: int
    sessions: int
    threads: int | None = Field(description="of each session; null: what the session's settings say")
    samples_per_second: float
    calls_ms: Percentiles
    limit_ms: float | None = Field(description="what 95 of 100 calls had to keep within")
    as_it_came: float | None = Field(description="samples a second as it was given: one session, no batch")
    tried: tuple[TriedReport, ...]
    note: str = ""


def throughput_report(found: Throughput | None) -> ThroughputReport | None:
    """Of a lane; None where throughput is not the goal."""
    if found is None:
        return None
    served = found.served
    return ThroughputReport(
        how=served.serving.text,
        **asdict(served.serving),
        samples_per_second=found.samples_per_s,
        calls_ms=found.calls,
        limit_ms=served.limit_ms,
        as_it_came=served.tried[0].samples_per_s or None,
        tried=tuple(
            TriedReport(
                how=one.serving.text,
                samples_per_second=one.samples_per_s or None,
                p95_ms=one.p95_s * 1e3 or None,
                problem=one.problem,
            )
            for one in served.tried
        ),
        note=served.note,
    )
