"""What can run a model."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar, Literal, Self

from optim.arrays import Feeds, Outputs
from optim.model import Model, SessionConfig
from optim.target import Target

if TYPE_CHECKING:
    from optim.passes import Interface
    from optim.processor import Assumption, ExactSettings


@dataclass(frozen=True, slots=True)
class BackendLimits:
    """The newest formats a backend accepts.

    Attributes:
        ir_version: newest ONNX IR version.
        opset: newest operator set by domain; a domain that is absent is not supported at all.
    """

    ir_version: int
    opset: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Delivery:
    """A run folder that is being filled.

    Attributes:
        folder: has ``model.onnx``, ``session.json`` and whatever else a run leaves.
        model: as it lies in the store; ``folder`` has the same.
        target: where it will run.
        interfaces: of the steps that made it, in order.
    """

    folder: Path
    model: Model
    target: Target
    interfaces: tuple[Interface, ...]


@dataclass(frozen=True, slots=True)
class Check:
    """Something looked at after delivery.

    Attributes:
        name: a few words, e.g. ``opens in Chromium``.
        status: ``passed``; ``skipped`` where this machine cannot; ``not-run`` where something else than a run stands
            for it. What fails raises.
        text: one sentence: what was found, why it was skipped, or what stands for it.
    """

    name: str
    status: Literal["passed", "skipped", "not-run"]
    text: str


FLOAT32 = "float32"
"""The precision that kernels of others are timed beside."""


@dataclass(frozen=True, slots=True)
class KernelProbe:
    """A kernel to be timed: a model of one operation, in one of the shapes that it is for.

    Attributes:
        operator: what the operation is called in a graph of floats, e.g. ``MatMul``.
        precision: in a word, as :class:`optim.passes.KernelUse` says it; one probe of each shape is :data:`FLOAT32`.
        shape: in a word, e.g. ``128 rows``: probes of one operator and shape are timed against each other.
        model: an ONNX model with fixed shapes; its inputs get random values. One that the runtime refuses is left out.
        session: settings that it is opened with; one thread is timed more steadily than several.
    """

    operator: str
    precision: str
    shape: str
    model: bytes
    session: SessionConfig = field(default_factory=SessionConfig)


@dataclass(frozen=True, slots=True)
class KernelRatio:
    """How long a kernel takes beside that of float32 on the same work.

    Attributes:
        operator: see :class:`KernelProbe`.
        precision: see there.
        shape: see there; empty for all.
        ratio: of the times; below 1 is faster.
        spread: how far rounds of it were apart, as a share of the ratio; 0 where it was not measured here.
    """

    operator: str
    precision: str
    shape: str
    ratio: float
    spread: float = 0.0


@dataclass(frozen=True, slots=True)
class KernelCount:
    """Nodes that one kernel computed, as a runtime tells it of the graph that it made of a model.

    Attributes:
        operator: as the runtime calls it, e.g. ``FullyConnected``.
        precision: that it computes in, e.g. ``bf16``.
        kernel: its family, e.g. ``brgemm_avx512_amx``.
        nodes: of the runtime's own graph.
    """

    operator: str
    precision: str
    kernel: str
    nodes: int


@dataclass(frozen=True, slots=True)
class NodeSeconds:
    """Time of a node of a runtime's own graph.

    Attributes:
        name: as the runtime calls it.
        operator: its type there.
        seconds: of a run, the mean.
    """

    name: str
    operator: str
    seconds: float


@dataclass(frozen=True, slots=True)
class NodeProfile:
    """Where the time of a model's runs went.

    Attributes:
        nodes: that were computed, in the order of the runtime.
        run_s: of a run, the mean, with the profiler on.
    """

    nodes: tuple[NodeSeconds, ...]
    run_s: float


@dataclass(frozen=True, slots=True)
class CallLimits:
    """Seconds that a backend allows itself; the model that takes longer is given up, and the run goes on.

    They are within what the user allows (``--timeout``, ``--search-seconds``), and hold where the system can interrupt
    a process, which Windows cannot.

    Attributes:
        open_s: to open a model, compiling it included; None: what the user allows.
        run_s: for one run.
    """

    open_s: float | None = None
    run_s: float | None = None


NO_LIMITS = CallLimits()


class Session(ABC):
    """A model opened for running; a context manager that closes itself.

    One thread at a time calls it, not always the same. What breaks the contract of a method below costs the model that
    was tried, and is named with the plugin: ``backend-contract``, ``ran-elsewhere``.
    """

    @abstractmethod
    def run(self, feeds: Feeds) -> Outputs:
        """One run; outputs by name.

        Args:
            feeds: arrays by name, which the session leaves as they are. What the graph does not have is left out;
                where an input without a default is missing, the run raises.

        Returns:
            Exactly the outputs that the model declares, of its dtypes, of the sizes that it fixes, as arrays of their
            own: the next run changes none of them.
        """

    @property
    @abstractmethod
    def executed_on(self) -> Mapping[str, float]:
        """Share of the graph's nodes by provider, 0..1, summing to 1; asked after the first run.

        The target's own :attr:`optim.Target.runs_on` must have them all, unless the target admits a fallback.
        """

    def kernels(self) -> Sequence[KernelCount]:
        """Which kernels compute the model, in which precision; asked after the first run, for the report.

        Empty where the runtime does not tell.
        """
        return ()

    def time_runs(self, feeds: Feeds, count: int) -> list[float]:
        """Seconds of each of ``count`` runs; a session that hands its feeds to another process measures there."""
        times = []
        for _ in range(count):
            started = time.perf_counter()
            self.run(feeds)
            times.append(time.perf_counter() - started)
        return times

    def processor_s(self) -> float:
        """Processor seconds used so far by the processes that run the model."""
        return time.process_time()

    def peak_memory_bytes(self) -> int | None:
        """Peak memory of a process of the session's own, less what it had before the model; None without one."""
        return None

    def close(self) -> None:  # noqa: B027 - most sessions have nothing to release
        """Release what the session holds; called once or more. A run after it raises."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Backend(ABC):
    """A way to run models, contributed by ``optim_backends``. Instantiated without arguments in a worker process."""

    name: ClassVar[str]
    """What targets call it by, in lower case, e.g. ``acme``."""
    opened_by_onnxruntime: ClassVar[bool] = False
    """Whether onnxruntime alone opens what is delivered: ``load.py`` and :func:`optim.load` do it so. Else
    :func:`optim.load` opens it by this backend, which must be installed there."""
    loads_sessions: ClassVar[bool] = False
    """Whether ``load()`` of its ``load.py`` returns what is called as a session of onnxruntime is, by ``run``,
    ``get_inputs`` and ``get_outputs``: of a decoder optim then writes ``generate`` beside it."""
    reference_only: ClassVar[bool] = False
    """Whether it has only what counts as right, such as outputs in a file, and opens no model: its targets are then for
    ``optim verify``, no run takes them, and no pass is offered for them."""
    exclusive: ClassVar[bool] = False
    """Whether its device takes one session at a time, of whatever process: sessions then take turns at it, and lanes of
    a race open and close in turn."""

    call_limits: ClassVar[CallLimits] = NO_LIMITS
    """How long opening and a run may take at most, on any model: a device that takes longer hangs."""

    @abstractmethod
    def open(self, model: Model, target: Target) -> Session:
        """A session that really runs on ``target``.

        Raises:
            OptimError[session-failed]: the runtime refused the model.
            OptimError[cpu-fallback]: the runtime would have run it somewhere else.
        """

    def open_reference(self, model: Model, target: Target) -> Session:
        """A session that computes what the model says, in the model's own precision.

        The original is run in it, and what no lossy pass has changed is compared in it where the target is not exact.
        A backend overrides it whose target takes less than every model (fixed shapes only, or no floats), or whose own
        arithmetic is to be doubted, as that of a port of a runtime: it opens the runtime that it is held against.
        """
        exact = self.exact_settings(model, target)
        if exact is not None:
            model = replace(model, session=model.session.updated(exact.session))
        return self.open(model, target)

    def exact_settings(self, model: Model, target: Target) -> ExactSettings | None:
        """Settings without which this machine may compute something else than the model says; None: it needs none.

        Cheap: it reads the graph and runs nothing. optim compares the original with and without the settings. If the
        outputs differ, those with the settings are what every candidate is held against.
        """
        return None

    def open_estimate(self, model: Model, target: Target) -> Session:
        """A session that computes about what the target does, and sooner, where opening for the target takes long.

        The repair and ``optim sensitivity`` measure in it; what the repair finds is judged on the target.
        """
        return self.open(model, target)

    @abstractmethod
    def limits(self) -> BackendLimits:
        """The newest IR version and opsets that it accepts, asked of the runtime itself."""

    def equivalent_settings(self, target: Target) -> Sequence[SessionConfig]:
        """Settings that must not change what a model computes; their spread measures the tolerance of ``lossless``."""
        return ()

    def session_digest(self, model: Model, target: Target, scratch: Path) -> str:
        """Returns what a session of this model does, as a digest; empty where the runtime does not tell.

        Two models with the same digest take the same time: steps and settings that leave the runtime's own graph as it
        is change nothing, and whatever a clock says of them is noise. Weights count by type and shape, and by what else
        makes them slow, such as denormal numbers. The part before a colon is of the graph alone, the part behind it of
        settings that no graph goes by. Asked in a process of its own, which may write into ``scratch``.
        """
        return ""

    def assumptions(self, target: Target) -> Sequence[Assumption]:
        """What its plugin takes for granted about processors, see :mod:`optim.processor`; for a listing."""
        return ()

    def kernel_probes(self, target: Target) -> Sequence[KernelProbe]:
        """Kernels to be timed once on this machine, in each precision and some classes of shapes.

        A few seconds for all of them; see :class:`KernelProbe`. Timed once for each version of its libraries.
        """
        return ()

    def known_kernels(self, target: Target) -> Sequence[KernelRatio]:
        """What stands for them where the machine is too busy to be timed: figures of hardware of its kind."""
        return ()

    def profile(self, model: Model, target: Target, feeds: Feeds, seconds: float) -> NodeProfile | None:
        """Run a model for about ``seconds``, and say how long each of its nodes took; None where nobody can tell.

        Not asked of a backend on onnxruntime, which writes a profile of its own.
        """
        return None

    def deliver(self, delivery: Delivery) -> Sequence[Check]:
        """Add files of its own to a run folder, and look whether what lies there works.

        Called in the process of the command line, when all else is written and before the report is.

        Raises:
            OptimError: what was delivered does not work; nothing is published then.
        """
        return ()

    def load_script(self, delivery: Delivery) -> str:
        """The text of ``load.py``: a function ``load()`` that opens what lies beside it without optim.

        Of a backend on onnxruntime optim writes one itself; without text there is none.
        """
        return ""

    def requirements(self, target: Target) -> Sequence[str]:
        """What ``load.py`` needs, as pip takes it; the report says so. By default :meth:`versions`, pinned."""
        return tuple(f"{name}=={version}" for name, version in sorted(self.versions().items()))

    def device(self, target: Target) -> str:
        """What an exclusive backend's sessions on a target take turns at: two targets on two devices have two names."""
        return self.name

    def is_passing(self, error: Exception) -> bool:
        """Returns whether what ``open`` or a run raised may go by itself, as a device that another program holds.

        It is then tried again in a session opened anew, three times within some seconds.
        """
        return False

    def versions(self) -> Mapping[str, str]:
        """Versions of the libraries it runs with, by distribution; part of every cache key."""
        return {}
