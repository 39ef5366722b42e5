"""Parts of a report: how a model begins, what the clock of a goal found, what answers take, what it serves at best."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from pydantic import Field

from optim._engine.goals.calls import Percentiles, Throughput
from optim._engine.reports.parts.figures import Part

if TYPE_CHECKING:
    from optim._engine.jobs.start_up import StartUp
    from optim.goal import GenerationTimes, Ratio


class StartReport(Part):
    """What comes before a model is as fast as it gets; other models may have been opened beside it."""

    open_ms: float = Field(description="milliseconds to open the model, without the import of the runtime")
    first_ms: float = Field(description="milliseconds of the first call")
    run_ms: float = Field(description="milliseconds of a later call on the same inputs")
    open_memory_bytes: int = Field(description="peak memory while the model opens, without imported libraries")


class GoalRatioReport(Part):
    """What the goal's own clock found of the result, to the original's; both timed in every round."""

    value: float = Field(description="ratio of the result to the original, by the clock of the goal")
    ci: tuple[float, float] | None = Field(description="95 % interval of the ratio; null with fewer than six rounds")
    rounds: int = Field(description="number of rounds")


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

    tokens: int = Field(description="tokens in the past")
    tokens_per_s: float = Field(description="tokens per second")
    past_bytes: int = Field(description="memory of the past during this token")


class GenerationReport(Part):
    """One answer to one prompt, one row at a time."""

    prompt: int = Field(description="number of tokens of the prompt")
    new: int = Field(description="number of tokens of the answer")
    first_ms: float = Field(description="milliseconds until the first token")
    answer_ms: float = Field(
        description="milliseconds of the whole answer, interpolated between the measured lengths of the past"
    )
    depths: tuple[DepthReport, ...] = Field(description="speed at each measured length of the past")


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

    how: str = Field(description="setting, e.g. batch 8, 2 sessions of 1 thread")
    samples_per_second: float | None = Field(description="samples per second")
    p95_ms: float | None = Field(description="latency (p95) in milliseconds")
    problem: str = Field(description="reason why it has no figures or was not chosen; else empty")


class ThroughputReport(Part):
    """What a model does at best on this machine."""

    how: str = Field(description="chosen batch size, sessions and threads")
    batch: int = Field(description="chosen batch size")
    sessions: int = Field(description="chosen number of sessions")
    threads: int | None = Field(description="threads of each session; null if the settings of the session decide")
    samples_per_second: float = Field(description="samples per second")
    calls_ms: Percentiles = Field(description="latency of single calls in milliseconds")
    limit_ms: float | None = Field(description="latency limit (p95) in milliseconds")
    as_it_came: float | None = Field(description="samples per second of the model as given: one session, no batch")
    tried: tuple[TriedReport, ...] = Field(description="settings that optim tried")
    note: str = Field(
        default="", description="limit of these figures, such as a batch size that the model fixes; else empty"
    )


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
