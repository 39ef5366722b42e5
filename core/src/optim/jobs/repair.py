"""Job: find which nodes a lossy pass must leave alone to keep the budget; every drift is measured in this process."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from optim.gate.repair import Estimate, OutOfEvaluations, Repair, find_keep
from optim.jobs.candidate import Request as CandidateRequest
from optim.processes.channel import Channel
from optim.sensitivity.replay import NoReplay, Replay
from optim.sensitivity.subject import Subject

_SHARE_TO_ESTIMATE = 0.5
"""Of the time, for estimates; the rest is for measuring what they propose."""

_LEAST_ESTIMATES = 24


@dataclass(frozen=True, slots=True)
class Request:
    """A candidate that broke the budget.

    Attributes:
        candidate: the pass with its options, and what it is compared with.
        replayed: the samples to estimate on; the candidate's own are measured on.
        whole: its drift; may be infinite.
        limit: what it may be.
        evaluations: at most so many drifts are measured.
        seconds: after which no further one is begun.
    """

    candidate: CandidateRequest
    replayed: tuple[int, ...]
    whole: float
    limit: float
    evaluations: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Answer:
    """What to keep, or None where nothing was found in time; ``note`` says how it was looked for."""

    repair: Repair | None
    note: str = ""


def run(request: Request, channel: Channel) -> Answer:
    """Search, with the pass and the backend loaded once."""
    deadline = time.monotonic() + request.seconds
    with ExitStack() as stack:
        subject = stack.enter_context(Subject(request.candidate))
        if not subject.nodes:
            return Answer(None, "the pass says of no node that it can leave it alone")

        def drift_of(keep: frozenset[str]) -> float:
            if time.monotonic() > deadline:
                raise OutOfEvaluations
            drift = subject.drift(keep)
            channel.event("measured", keep=len(keep), drift=drift)
            return drift

        replay, note = _replay(subject, request.replayed, stack)
        channel.event("replayed", nodes=len(replay.errors) if replay else 0, note=note)
        found = find_keep(
            subject.nodes, drift_of, request.whole, request.limit, request.evaluations,
            estimate=_estimate(replay, request.seconds, deadline) if replay else None,
            work={name: error.work for name, error in replay.errors.items()} if replay else None,
        )  # fmt: skip
        return Answer(found, note)


def _replay(subject: Subject, samples: Sequence[int], stack: ExitStack) -> tuple[Replay | None, str]:
    try:
        return stack.enter_context(Replay(subject, samples)), ""
    except NoReplay as reason:
        return None, f"measured without estimates: {reason}"


def _estimate(replay: Replay, seconds: float, deadline: float) -> Estimate:
    """Estimates of the nodes that were replayed, as many as the time allows."""
    overflowing = replay.overflowing
    nodes = tuple(name for name in replay.errors if name not in overflowing)
    started = time.monotonic()
    replay.drift(nodes)
    each = max(1e-4, time.monotonic() - started)
    most = max(_LEAST_ESTIMATES, int(_SHARE_TO_ESTIMATE * seconds / each))

    def guess(converted: frozenset[str]) -> float:
        if time.monotonic() > deadline:
            raise OutOfEvaluations
        return replay.drift(converted)

    return Estimate(guess, nodes, tuple(overflowing), most)
