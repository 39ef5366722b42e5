"""Part of a report: how many samples a second a model does at best."""

from __future__ import annotations

from dataclasses import asdict

from pydantic import Field

from optim._engine.jobs.clocks.serving import Percentiles, Throughput
from optim._engine.reports.parts.fields import Part


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
