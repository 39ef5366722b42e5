"""Machines that do the jobs of a run: what a plugin offers behind ``--cluster``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

if TYPE_CHECKING:
    from optim.jobs.process import WorkerProcess
    from optim.target import Target


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

    def seen(self, target: Target) -> Target:
        """A target as it is where races are run: whether it can be used there, its device, its free memory."""

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


@dataclass(frozen=True, slots=True)
class WorkplaceRequest:
    """What a run asks of a cluster.

    Attributes:
        where: what stands behind ``--cluster``.
        store_url: where machines exchange files; empty: this process carries them.
        targets: of the run, the baseline first: each race needs the clock of its machine.
        required: names of targets without which a machine cannot take part; of several that compete, none.
        plugins: names of those that have passes or backends for these targets.
        store: folder of this machine's store; the jobs' paths lie below it.
        say: tells the user something, such as which machines are left out.
    """

    where: str
    store_url: str
    targets: tuple[Target, ...]
    required: tuple[str, ...]
    plugins: frozenset[str]
    store: Path
    say: Callable[[str], None]


class Cluster(ABC):
    """Machines that ``--cluster`` can name, contributed by ``optim_workplaces``. Instantiated without arguments.

    Attributes:
        name: in lower case.
        schemes: what may stand before the first colon behind ``--cluster``; none: whatever no other cluster takes.
    """

    name: ClassVar[str]
    schemes: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def check(self, where: str) -> None:
        """Refuse at once what cannot be a cluster, before the run has begun; must be quick and import nothing heavy.

        Raises:
            OptimError: e.g. nobody answers there.
        """

    @abstractmethod
    def connect(self, request: WorkplaceRequest) -> AbstractContextManager[Workplace]:
        """Connect to the machines; they are let go when the context is left.

        Raises:
            OptimError: nobody answers, or no machine can do what the run asks.
        """


class MachineClock(Protocol):
    """The turns of one run at a machine's clock: one timing at a time, whoever does it."""

    def now(self) -> float:
        """Seconds of a clock that stands still while this run waits for its turn."""

    def await_quiet_end(self) -> None:
        """Return when a job that is not timed may begin."""

    def turn(self) -> AbstractContextManager[None]:
        """Hold the clock.

        Raises:
            OptimError[clock-in-use]: others held it for too long.
        """


def perform(
    work: Work,
    turns: MachineClock | None = None,
    watch: Callable[[WorkerProcess], AbstractContextManager[Any]] = nullcontext,
) -> Done:
    """Do a job on this machine: what a workplace's program does where it runs.

    Args:
        work: the job; its paths lie on this machine.
        turns: at this machine's clock; None: turns of its own.
        watch: a context in which the job's process is under way.

    Raises:
        WorkerFailed: it did not come back; ``events`` has what it said.
    """
    from optim._engine.search.turns import Turns

    turns = turns or Turns(f"optim, {work.module.rpartition('.')[2]}", lambda text: None)
    if work.parent:
        import importlib

        from optim.jobs.wire import from_wire, to_wire

        module = importlib.import_module(work.module)
        return Done(to_wire(module.run(from_wire(module.Request, work.request), turns)))
    if not work.timed:
        turns.await_quiet_end()
    with turns.turn() if work.timed else nullcontext():
        return _in_process(work, watch)


def _in_process(work: Work, watch: Callable[[WorkerProcess], AbstractContextManager[Any]]) -> Done:
    from optim.jobs.process import WorkerFailed, WorkerProcess

    events: list[dict[str, Any]] = []
    with WorkerProcess(work.module, work.request) as process, watch(process):
        try:
            if work.of_silence:
                while "result" not in (message := process.receive(work.limit_s)):
                    events.append(message)
                answer = message["result"]
            else:
                answer = process.result(work.limit_s, events.append)
        except WorkerFailed as failed:
            failed.events = events
            raise
        return Done(answer, events, process.peak_memory_bytes)
