"""Workplaces: machines that do the jobs of a run, which a plugin offers for ``--cluster``."""

from __future__ import annotations

import importlib
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
        module: module of the job.
        request: request of the job. Its paths are in this machine's store.
        limit_s: time limit in seconds.
        of_silence: whether the limit counts from the last message of the job.
        timed: whether its answer is a time, so that it needs the clock of a machine.
        parent: whether it starts processes of its own instead of being one. It waits for the clock itself.
    """

    module: str
    request: Any
    limit_s: float
    of_silence: bool = False
    timed: bool = False
    parent: bool = False


@dataclass(frozen=True, slots=True)
class Done:
    """Result of a job.

    Attributes:
        answer: JSON values.
        events: messages of the job.
        peak_memory_bytes: peak memory of its process.
        waited_s: seconds of waiting for a worker and for the clock there, including transfers of files.
        stalled_s: seconds of these without progress for so long that a machine must have been away.
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
        """Number of jobs that the machines do at the same time."""

    @property
    def machine(self) -> str:
        """Facts about the machine that a timing depends on, for keys."""

    @property
    def libraries(self) -> Mapping[str, str]:
        """Versions of optional libraries of plugins, for keys; empty if they are the same as here."""

    @property
    def available_bytes(self) -> int:
        """Free memory of the machine that runs races."""

    @property
    def report(self) -> Mapping[str, Any]:
        """Facts about the machine that runs races, as JSON values for the report."""

    def seen(self, target: Target) -> Target:
        """Returns a target as the machine of races has it: whether it is available, its device, its free memory."""

    def now(self) -> float:
        """Returns seconds of a clock that never goes back. A search only knows this time."""

    def working(self) -> AbstractContextManager[None]:
        """Takes jobs. When the context ends, it ends the jobs that still run."""

    def do(self, work: Work) -> Done:
        """Does a job.

        Raises:
            WorkerFailed: the job did not come back. ``optim.jobs.process.WorkerFailed.events`` has its messages.
            OptimError: the cluster is lost, or no machine is left that could do the job.
        """


@dataclass(frozen=True, slots=True)
class WorkplaceRequest:
    """Request of a run to a cluster.

    Attributes:
        where: text after ``--cluster``.
        store_url: place where machines exchange files; empty: this process carries them.
        targets: targets of the run, the baseline first. Each race needs the clock of the machine of its target.
        required: targets that every machine must have; none of several that compete.
        plugins: plugins with passes or backends for these targets.
        store: folder of this machine's store, with the paths of the jobs.
        say: tells the user something, such as the machines that take no part.
    """

    where: str
    store_url: str
    targets: tuple[Target, ...]
    required: tuple[str, ...]
    plugins: frozenset[str]
    store: Path
    say: Callable[[str], None]


class Cluster(ABC):
    """Machines that ``--cluster`` can name. A plugin offers it by ``optim_workplaces``; it is made without arguments.

    Attributes:
        name: name in lower case.
        schemes: texts before the first colon after ``--cluster``; empty: all that no other cluster takes.
    """

    name: ClassVar[str]
    schemes: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def check(self, where: str) -> None:
        """Refuses what cannot be a cluster before the run begins. Must be quick and import nothing heavy.

        Raises:
            OptimError: the cluster cannot be used, e.g. there is no answer.
        """

    @abstractmethod
    def connect(self, request: WorkplaceRequest) -> AbstractContextManager[Workplace]:
        """Connects to the machines. When the context ends, it releases them.

        Raises:
            OptimError: there is no answer, or no machine can do what the run asks.
        """


class MachineClock(Protocol):
    """Turns of a run at the clock of a machine, which allows one timing at a time."""

    def now(self) -> float:
        """Returns seconds of a clock that stops while this run waits for its turn."""

    def await_quiet_end(self) -> None:
        """Waits until a job without timing may begin."""

    def turn(self) -> AbstractContextManager[None]:
        """Holds the clock.

        Raises:
            OptimError[clock-in-use]: others held the clock for too long.
        """


def perform(
    work: Work,
    turns: MachineClock | None = None,
    watch: Callable[[WorkerProcess], AbstractContextManager[Any]] = nullcontext,
) -> Done:
    """Does a job on this machine. The program of a workplace calls it on its machines.

    Args:
        work: the job. Its paths are on this machine.
        turns: turns at the clock of this machine; None: new ones.
        watch: a context around the time when the process of the job runs.

    Raises:
        WorkerFailed: the job did not come back. ``events`` has its messages.
    """
    from optim._engine.search.turns import Turns

    turns = turns or Turns(f"optim, {work.module.rpartition('.')[2]}", lambda text: None)
    if work.parent:
        from optim.jobs.wire import from_wire, to_wire

        module = importlib.import_module(work.module)
        return Done(to_wire(module.run(from_wire(module.Request, work.request), turns)))
    from optim.jobs.process import WorkerFailed, WorkerProcess

    if not work.timed:
        turns.await_quiet_end()
    turn = turns.turn() if work.timed else nullcontext()
    events: list[dict[str, Any]] = []
    with turn, WorkerProcess(work.module, work.request) as process, watch(process):
        try:
            answer = process.result(work.limit_s, events.append, of_silence=work.of_silence)
        except WorkerFailed as failed:
            failed.events = events
            raise
        return Done(answer, events, process.peak_memory_bytes)
