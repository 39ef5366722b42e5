"""Job: the original on another target than the one that it was prepared on: whether it runs there, and how far it is.

Everything that a plugin's runtime may do wrong with it (an operator that it lacks, a crash, a device that is not there)
costs that target alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from optim._engine.compare.comparison import Comparison
from optim._engine.gate.drift import OutputComparison
from optim._engine.graphs.limits import check_limits
from optim._engine.jobs.job import Job
from optim.jobs.talk import Channel
from optim.model import Model


@dataclass(frozen=True, slots=True)
class Request:
    """The original, where it is to run beside what it is compared with, and the samples for that."""

    model: Model
    comparison: Comparison
    samples: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """It runs.

    Attributes:
        requirements: what opens a result needs, as pip takes it.
    """

    comparisons: tuple[OutputComparison, ...]
    versions: dict[str, str]
    requirements: tuple[str, ...]


JOB = Job(__name__, Request, Answer)


def run(request: Request, channel: Channel) -> Answer:
    """Open, run, compare."""
    backend, target = request.comparison.place.backend(), request.comparison.place.target
    check_limits(request.model, backend.limits(), backend.name)
    with backend.open(request.model, target) as session:
        comparisons, _ = request.comparison.judge(session, request.samples, measure_task=False, everything=False)
        return Answer(comparisons, dict(backend.versions()), tuple(backend.requirements(target)))
