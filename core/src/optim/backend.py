"""Backends: what can run a model."""

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
    """The newest formats that a backend accepts.

    Attributes:
        ir_version: newest ONNX IR version.
        opset: newest operator set by domain. A domain that is absent is not supported.
    """

    ir_version: int
    opset: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Delivery:
    """A run folder that optim fills.

    Attributes:
        folder: folder with ``model.onnx``, ``session.json`` and the other files of a run.
        model: the model in the store; ``folder`` has the same.
        target: where the model will run.
        interfaces: interfaces of the steps that made the model, in order.
    """

    folder: Path
    model: Model
    target: Target
    interfaces: tuple[Interface, ...]


@dataclass(frozen=True, slots=True)
class Check:
    """Result of a check after delivery.

    Attributes:
        name: a few words, e.g. ``opens in Chromium``.
        status: ``passed``; ``skipped`` if this machine cannot check; ``not-run`` if something else stands for a run. A
            check that fails raises an error.
        text: one sentence: the finding, the reason for skipping, or what stands for a run.
    """

    name: str
    status: Literal["passed", "skipped", "not-run"]
    text: str


FLOAT32 = "float32"
"""Precision that optim times the other kernels against."""


@dataclass(frozen=True, slots=True)
class KernelProbe:
    """A kernel to time: a model of one operation, in one of its shapes.

    Attributes:
        operator: operation in a float graph, e.g. ``MatMul``.
        precision: precision in a word, as in ``optim.passes.KernelUse``. One probe of each shape is ``FLOAT32``.
        shape: shape in a word, e.g. ``128 rows``. optim times probes of one operator and shape against each other.
        model: ONNX model with fixed shapes. Its inputs get random values. optim leaves out a model that the runtime
            refuses.
        session: settings to open the model with. One thread gives steadier times than several.
        rows: rows of a product with a weight; 0: the kernel is no product.
    """

    operator: str
    precision: str
    shape: str
    model: bytes
    session: SessionConfig = field(default_factory=SessionConfig)
    rows: int = 0


@dataclass(frozen=True, slots=True)
class KernelRatio:
    """Time of a kernel, relative to the float32 kernel for the same work.

    Attributes:
        operator: operation, as in ``KernelProbe``.
        precision: precision, as in ``KernelProbe``.
        shape: shape, as in ``KernelProbe``; empty: all.
        ratio: ratio of the times; below 1 is faster.
        spread: spread of the rounds as a share of the ratio; 0: not measured here.
        rows: rows of a product, as in ``KernelProbe``; 0: any.
    """

    operator: str
    precision: str
    shape: str
    ratio: float
    spread: float = 0.0
    rows: int = 0


@dataclass(frozen=True, slots=True)
class KernelCount:
    """Nodes that one kernel computed, in the runtime's own graph of a model.

    Attributes:
        operator: operator, as the runtime names it, e.g. ``FullyConnected``.
        precision: precision of the kernel, e.g. ``bf16``.
        kernel: family of the kernel, e.g. ``brgemm_avx512_amx``.
        nodes: number of nodes.
    """

    operator: str
    precision: str
    kernel: str
    nodes: int


@dataclass(frozen=True, slots=True)
class NodeSeconds:
    """Time of a node in the runtime's own graph.

    Attributes:
        name: name, as the runtime gives it.
        operator: type of the node there.
        seconds: mean time in a run.
    """

    name: str
    operator: str
    seconds: float


@dataclass(frozen=True, slots=True)
class NodeProfile:
    """Times of the nodes of a model.

    Attributes:
        nodes: computed nodes, in the order of the runtime.
        run_s: mean time of a run with the profiler on.
    """

    nodes: tuple[NodeSeconds, ...]
    run_s: float


@dataclass(frozen=True, slots=True)
class CallLimits:
    """Time limits of a backend in seconds. If a model takes longer, optim drops the model and the run goes on.

    The limits apply within those of the user (``--timeout``, ``--search-seconds``). They need a system that can
    interrupt a process; Windows cannot.

    Attributes:
        open_s: to open a model, including its compilation; None: the limit of the user.
        run_s: for one run.
    """

    open_s: float | None = None
    run_s: float | None = None


NO_LIMITS = CallLimits()


class Session(ABC):
    """A model that is open for runs; a context manager that closes itself.

    One thread at a time calls the session, not always the same one. A method that breaks its contract costs this
    candidate. The error names the plugin: ``backend-contract``, ``ran-elsewhere``.
    """

    @abstractmethod
    def run(self, feeds: Feeds) -> Outputs:
        """Runs the model once and returns its outputs by name.

        Args:
            feeds: arrays by name. The session must not change them, and ignores arrays that the graph does not have. If
                an input without a default is missing, the session raises an error.

        Returns:
            Exactly the declared outputs of the model, with its dtypes and fixed sizes, as new arrays that the next run
                leaves alone.
        """

    @property
    @abstractmethod
    def executed_on(self) -> Mapping[str, float]:
        """Returns the share of the graph's nodes by provider, with a sum of 1. optim asks after the first run.

        All nodes must be on ``optim.Target.runs_on`` of the target, unless the target allows a fallback.
        """

    def kernels(self) -> Sequence[KernelCount]:
        """Returns the kernels that computed the model, for the report. optim asks after the first run.

        Returns nothing if the runtime does not tell.
        """
        return ()

    def time_runs(self, feeds: Feeds, count: int) -> list[float]:
        """Returns the seconds of each of ``count`` runs. A session that uses another process measures there."""
        times = []
        for _ in range(count):
            started = time.perf_counter()
            self.run(feeds)
            times.append(time.perf_counter() - started)
        return times

    def processor_s(self) -> float:
        """Returns the processor seconds so far of all processes that run the model."""
        return time.process_time()

    def peak_memory_bytes(self) -> int | None:
        """Returns the peak memory of the session's own process since it opened the model; None: no process."""
        return None

    def close(self) -> None:  # noqa: B027 - most sessions have nothing to release
        """Releases all resources. optim may call it several times. A later run raises an error."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Backend(ABC):
    """A way to run models. A plugin offers it by ``optim_backends``; a worker process makes it without arguments."""

    name: ClassVar[str]
    """Name in lower case, as targets use it, e.g. ``acme``."""
    opened_by_onnxruntime: ClassVar[bool] = False
    """Whether onnxruntime alone opens the delivered model. ``load.py`` and ``optim.load`` then use it. If not,
    ``optim.load`` needs this backend installed."""
    loads_sessions: ClassVar[bool] = False
    """Whether ``load()`` of its ``load.py`` returns an object with the methods ``run``, ``get_inputs`` and
    ``get_outputs`` of an onnxruntime session. For a decoder, optim then adds ``generate``."""
    reference_only: ClassVar[bool] = False
    """Whether the backend only has stored outputs and opens no model. Only ``optim verify`` uses its targets; no run
    does, and no pass is offered for them."""
    exclusive: ClassVar[bool] = False
    """Whether the device takes one session at a time, from all processes together. Sessions then take turns, and a race
    opens and closes each model in turn."""

    call_limits: ClassVar[CallLimits] = NO_LIMITS
    """Time limits for opening and running any model. A device that takes longer hangs."""

    @abstractmethod
    def open(self, model: Model, target: Target) -> Session:
        """Opens a session that really runs on ``target``.

        Raises:
            OptimError[session-failed]: the runtime refused the model.
            OptimError[cpu-fallback]: the runtime would run the model elsewhere.
        """

    def open_reference(self, model: Model, target: Target) -> Session:
        """Opens a session that computes the model in the model's own precision.

        optim runs the original in it. If the target is not exact, optim also compares models without lossy passes in
        it. Override the method in two cases: the target does not take every model (fixed shapes only, or no floats), or
        its own results need a check, as those of a port of a runtime. Then open the runtime to compare with.
        """
        exact = self.exact_settings(model, target)
        if exact is not None:
            model = replace(model, session=model.session.updated(exact.session))
        return self.open(model, target)

    def exact_settings(self, model: Model, target: Target) -> ExactSettings | None:
        """Returns the settings that this machine needs to compute the model as written; None: it needs none.

        Must be quick: read the graph and run nothing. optim compares the original with and without the settings. If the
        outputs differ, optim compares every candidate with the outputs under the settings.
        """
        return None

    def open_estimate(self, model: Model, target: Target) -> Session:
        """Opens a session with nearly the results of the target, and opens it sooner.

        A repair and ``optim sensitivity`` measure in it. optim judges the repaired model on the target.
        """
        return self.open(model, target)

    @abstractmethod
    def limits(self) -> BackendLimits:
        """Asks the runtime for the newest IR version and opsets that it accepts."""

    def equivalent_settings(self, target: Target) -> Sequence[SessionConfig]:
        """Returns settings that must not change results. Their spread gives the tolerance of ``lossless``."""
        return ()

    def session_digest(self, model: Model, target: Target, scratch: Path) -> str:
        """Returns a digest of the computation in a session of this model; empty if the runtime does not tell.

        Two models with the same digest take the same time. A step that leaves the runtime's own graph as it is changes
        nothing, and optim counts a measured difference as noise. Weights count by type and shape, and by what else
        makes them slow, such as denormal numbers. The part before a colon describes the graph alone, the part after it
        settings. optim asks in a process of its own, which may write into ``scratch``.
        """
        return ""

    def assumptions(self, target: Target) -> Sequence[Assumption]:
        """Returns the assumptions of its plugin about processors, for a listing (see ``optim.processor``)."""
        return ()

    def kernel_probes(self, target: Target) -> Sequence[KernelProbe]:
        """Returns kernels that optim times once on this machine, in each precision and some classes of shapes.

        All of them together should take a few seconds (see ``KernelProbe``). optim times them once for each version of
        its libraries.
        """
        return ()

    def known_kernels(self, target: Target) -> Sequence[KernelRatio]:
        """Returns figures of similar hardware, for a machine that is too busy to time kernels."""
        return ()

    def profile(self, model: Model, target: Target, feeds: Feeds, seconds: float) -> NodeProfile | None:
        """Runs a model for about ``seconds`` and returns the time of each node; None if it is unknown.

        optim does not ask a backend on onnxruntime, because onnxruntime writes a profile of its own.
        """
        return None

    def deliver(self, delivery: Delivery) -> Sequence[Check]:
        """Adds files to a run folder and checks that the folder works.

        optim calls it in the process of the command line, after all other files and before the report.

        Raises:
            OptimError: the delivered files do not work. optim then publishes nothing.
        """
        return ()

    def load_script(self, delivery: Delivery) -> str:
        """Returns the text of ``load.py``: a function ``load()`` that opens the files beside it without optim.

        For a backend on onnxruntime optim writes ``load.py`` itself. Without a text there is none.
        """
        return ""

    def requirements(self, target: Target) -> Sequence[str]:
        """Returns the requirements of ``load.py``, as pip takes them, for the report. By default ``versions``."""
        return tuple(f"{name}=={version}" for name, version in sorted(self.versions().items()))

    def device(self, target: Target) -> str:
        """Returns the name of the device that sessions of an exclusive backend share. Two devices have two names."""
        return self.name

    def is_passing(self, error: Exception) -> bool:
        """Whether an error of ``open`` or ``run`` may pass, e.g. because another program uses the device.

        optim then opens a new session and tries again, three times within some seconds.
        """
        return False

    def versions(self) -> Mapping[str, str]:
        """Returns the versions of its libraries by distribution. Every cache key contains them."""
        return {}
