"""Job: find which nodes a lossy pass must leave alone to keep the budget; every drift is measured in this process.

Sets are measured on a few samples: those on which the candidate was worst, of all that the gate compares. What is found
is measured on all of them once more; where that says otherwise, less is aimed at, so that what is delivered as repaired
does not break the budget at the end of the search.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from optim._engine.diagnosis.replay import NoReplay, Replay
from optim._engine.diagnosis.subject import Subject
from optim._engine.gate.finer import refine
from optim._engine.gate.mixed import find_mix
from optim._engine.gate.precisions import Precisions
from optim._engine.gate.repair import OutOfEvaluations, Repair, find_keep
from optim._engine.jobs.candidate import Request as CandidateRequest
from optim._engine.jobs.job import Job
from optim.jobs.channel import Channel

_SHARE_TO_ESTIMATE = 0.5
"""Of the time, for estimates; the rest is for measuring what they propose."""

_LEAST_ESTIMATES = 24
_SHARE_TO_LOOK = 0.15
"""Of the time, for finding the worst samples."""

_CHECK_S = 5.0
"""Beyond the time, for measuring what was found on all samples."""

_MARGIN = 0.99
"""Aim a little below the budget: session settings that come later move the drift a little."""

_ROUNDS = 2


@dataclass(frozen=True, slots=True)
class Request:
    """A candidate that broke the budget.

    Attributes:
        candidate: the pass with its options, and what it is compared with; as many samples as it names are measured on.
        whole: its drift; may be infinite.
        limit: what it may be.
        evaluations: at most so many drifts are measured.
        seconds: after which no further one is begun.
    """

    candidate: CandidateRequest
    whole: float
    limit: float
    evaluations: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Answer:
    """What to keep, or None where nothing was found in time; ``note`` says how it was looked for."""

    repair: Repair | None
    note: str = ""


JOB = Job(__name__, Request, Answer)


def run(request: Request, channel: Channel) -> Answer:
    """Search, with the pass and the backend loaded once."""
    deadline = time.monotonic() + request.seconds
    with ExitStack() as stack:
        subject = stack.enter_context(Subject(request.candidate))
        if not subject.nodes:
            return Answer(None, "the pass says of no node that it can leave it alone")
        whole = _look_for_the_worst(subject, request)
        replay, note = _replay(subject, subject.samples[:1], stack)
        channel.event("replayed", nodes=len(replay.errors) if replay else 0, note=note)

        precisions = _precisions(replay, request.seconds, deadline) if replay else None
        work = {name: error.work for name, error in replay.errors.items()} if replay else {}

        def drift_of(keep: frozenset[str], finer: frozenset[str] = frozenset()) -> float:
            if time.monotonic() > deadline:
                raise OutOfEvaluations
            drift = subject.drift(keep, finer)
            channel.event("measured", keep=len(keep), drift=drift)
            return drift

        aim, evaluations, estimates = request.limit * _MARGIN, 0, 0
        for _ in range(_ROUNDS):
            left = request.evaluations - evaluations
            refines = precisions is not None and bool(precisions.refinable)
            mixed = find_mix(precisions, drift_of, whole, aim, left, work) if precisions and refines else None
            estimate = precisions.without_finer if precisions else None
            found = mixed or find_keep(subject.nodes, drift_of, whole, aim, left, estimate=estimate, work=work)
            if found is None:
                break
            evaluations, estimates = evaluations + found.evaluations + 1, estimates + found.estimates
            drift = max(found.drift, _worst_of_all(subject, found.keep, deadline + _CHECK_S, found.finer))
            if drift <= request.limit:
                found = replace(found, drift=drift, evaluations=evaluations, estimates=estimates)
                return Answer(found if mixed else _refined(subject, found, request.limit, work, deadline), note)
            aim *= request.limit / drift * _MARGIN
        return Answer(None, note)


def _refined(subject: Subject, found: Repair, limit: float, work: Mapping[str, float], deadline: float) -> Repair:
    """The repair with nodes in a precision between, where the pass has one; it holds on all samples too."""

    def drift_of(keep: Sequence[str], finer: Sequence[str]) -> float:
        if time.monotonic() > deadline:
            raise OutOfEvaluations
        drift = subject.drift(keep, finer)
        return drift if drift > limit else max(drift, _worst_of_all(subject, keep, deadline + _CHECK_S, finer))

    return refine(found, subject.refinable, drift_of, limit * _MARGIN, work)


def _look_for_the_worst(subject: Subject, request: Request) -> float:
    """Have the subject measured on the samples where the candidate drifts most; its drift there."""
    until = time.monotonic() + _SHARE_TO_LOOK * request.seconds
    drifts: dict[int, float] = {}
    for sample, drift in subject.drifts((), request.candidate.comparison.reference.compared):
        drifts[sample] = drift
        if time.monotonic() > until:
            break
    worst = sorted(drifts, key=lambda sample: (-drifts[sample], sample))
    others = (sample for sample in subject.samples if sample not in drifts)
    subject.samples = (*worst, *others)[: len(request.candidate.samples)]
    return max(request.whole, *(drifts[sample] for sample in subject.samples if sample in drifts))


def _worst_of_all(subject: Subject, keep: Sequence[str], deadline: float, finer: Sequence[str] = ()) -> float:
    """The drift on all samples that the gate compares; on as many as there is time for."""
    others = [sample for sample in subject.request.comparison.reference.compared if sample not in subject.samples]
    worst = 0.0
    for _, drift in subject.drifts(keep, others, finer):
        worst = max(worst, drift)
        if time.monotonic() > deadline:
            break
    return worst


def _replay(subject: Subject, samples: Sequence[int], stack: ExitStack) -> tuple[Replay | None, str]:
    try:
        return stack.enter_context(Replay(subject, samples, subject.refinable)), ""
    except NoReplay as reason:
        return None, f"measured without estimates: {reason}"


def _precisions(replay: Replay, seconds: float, deadline: float) -> Precisions:
    """Estimates of the nodes that were replayed, as many as the time allows."""
    overflowing = replay.overflowing
    nodes = tuple(name for name in replay.errors if name not in overflowing)
    started = time.monotonic()
    replay.drift(nodes)
    each = max(1e-4, time.monotonic() - started)
    most = max(_LEAST_ESTIMATES, int(_SHARE_TO_ESTIMATE * seconds / each))

    def guess(converted: frozenset[str], finer: frozenset[str]) -> float:
        if time.monotonic() > deadline:
            raise OutOfEvaluations
        return replay.drift(converted, finer)

    return Precisions(guess, nodes, replay.finer & frozenset(nodes), tuple(overflowing), most)
