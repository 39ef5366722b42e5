"""What a :class:`~optim._engine.jobs.runner.Runner` hands its jobs to where other machines do them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Work:
    """A job, as JSON.

    Attributes:
        module: of the job.
        request: what it is told; paths lie in this machine's store.
        limit_s: seconds that it may take.
        of_silence: whether that is the time between two things that it says.
        timed: whether its answer is a time: it needs a machine's clock.
        parent: whether it starts processes of its own and is none itself; it takes its turn at the clock by itself.
    """

    module: str
    request: Any
    limit_s: float
    of_silence: bool = False
    timed: bool = False
    parent: bool = False


@dataclass(frozen=True, slots=True)
class Done:
    """What came of it.

    Attributes:
        answer: JSON values.
        events: what it said on its way.
        peak_memory_bytes: of its process.
        waited_s: for a worker, and there for the clock; files on their way included.
        stalled_s: of these, where nothing went on for so long that something must have been away.
    """

    answer: Any
    events: list[dict[str, Any]] = field(default_factory=list)
    peak_memory_bytes: int = 0
    waited_s: float = 0.0
    stalled_s: float = 0.0


class Workplace(Protocol):
    """Machines that do jobs."""

    @property
    def at_once(self) -> int:
        """How many jobs they do at the same time."""

    @property
    def machine(self) -> str:
        """What a timing made there depends on of the machine, for keys."""

    @property
    def libraries(self) -> Mapping[str, str]:
        """Versions of libraries that plugins can do without, for keys; empty where they are as here."""

    @property
    def available_bytes(self) -> int:
        """Free memory where races are run."""

    @property
    def report(self) -> Mapping[str, Any]:
        """What a report says of the machine where races are run, as JSON values."""

    def now(self) -> float:
        """Seconds of a clock that never goes back: all that a search knows of time."""

    def working(self) -> AbstractContextManager[None]:
        """Take jobs; what is under way when this is left is ended, and nobody waits for it."""

    def do(self, work: Work) -> Done:
        """Have a job done.

        Raises:
            WorkerFailed: it did not come back; :attr:`~optim.jobs.process.WorkerFailed.events` has what it said.
            OptimError: the cluster is lost, or has nobody left who could do it.
        """
