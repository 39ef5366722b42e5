"""Targets: where a model will run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from optim.model import THREADS, SessionConfig


@dataclass(frozen=True, slots=True)
class Target:
    """An execution provider on a device, and what it supports.

    Attributes:
        name: name after ``--target``.
        backend: name of the ``optim.Backend`` that runs models for the target.
        provider: execution provider of onnxruntime, e.g. ``CPUExecutionProvider``.
        runtime: other runtime that runs the models, e.g. ``acme-runtime``. A target has a provider or a runtime, and
            ``optim.Session.executed_on`` uses its name.
        provider_options: options of the provider.
        harmless_options: provider options that the ``session.json`` of a stranger may set, for providers beside those
            of ``ep:NAME``. Such an option names no file, loads no library, and is no address in memory.
        also: providers for nodes that the first one does not take, in order, each with its options: CUDA behind
            TensorRT. Their nodes count as run on the target.
        prepares_for: provider that models are made for, if another one judges them, e.g. without the device (see
            ``made_for``).
        library: Python package of a provider outside of onnxruntime, e.g. ``onnxruntime_qnn``. It has
            ``get_library_path()``.
        reads_onnx: whether a runtime takes every graph of standard operators within the limits of its backend. Plugins
            then offer passes that only write such operators, e.g. ``ort.clean``.
        fallback: whether the user allows the CPU to run nodes that the provider does not take.
        shapes_on_cpu: whether the runtime computes shapes and other integers on the CPU by design. Its backend then
            checks which nodes ran there, and refuses a model if other nodes did.
        device: name of the device for people, e.g. ``CPU``.
        threads: largest number of processor threads for a model, as the user chose; 0: the default of the runtime.
            optim times, compares and opens models with it.
        hardware: the device of this machine and what its speed depends on, as ``identify`` found it.
        local: whether a program of this machine runs models on the target. A browser or a device elsewhere is not
            local, and ``--target auto`` leaves it out.
        timed: whether time means something. On a simulator it does not; the gate then judges validity, drift, placement
            of nodes, and size.
        exact: whether the target computes with the precision of the model. If not, every result must keep the budget.
        remark: one sentence that readers of a report must know about the target.
        requires: passes of role ``requested`` that run for this target unless the user excludes them by name. If one
            changes nothing, the run goes on with the unchanged model.
        runs_sources: whether the target runs the module that a model was exported from, and no ONNX file. Only ``optim
            bench --beside`` uses it.
        viewer: command that shows a run folder of this target, with ``DIR`` for the folder; empty: none. optim tells it
            to the user.
        probe: returns None if the target is available, else the reason. Must be quick: it looks for a library file or a
            device node, and never imports the runtime.
        identify: describes the device of this machine, for keys of measurements and for the report, e.g. ``NVIDIA L4,
            23 GiB, driver 580.95``; empty: unknown. Must be quick, and never imports the runtime.
        free_memory: returns the free memory of the device in bytes; None: unknown, or models use the memory of the
            machine. optim opens as many models at once as fit into half of it. Must be quick.
        configure: makes the target for options after its name, ``--target name:key=value,...``; None: the target has no
            options. Raises an OptimError for an unknown key or value.
    """

    name: str
    backend: str
    provider: str = ""
    provider_options: Mapping[str, str] = field(default_factory=dict)
    library: str = ""
    fallback: bool = False
    device: str = ""
    threads: int = 0
    local: bool = True
    timed: bool = True
    exact: bool = True
    remark: str = ""
    requires: tuple[str, ...] = ()
    runs_sources: bool = False
    runtime: str = ""
    viewer: str = ""
    also: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    prepares_for: str = ""
    shapes_on_cpu: bool = False
    harmless_options: tuple[str, ...] = ()
    reads_onnx: bool = False
    hardware: str = ""
    probe: Callable[[], str | None] | None = field(default=None, compare=False)
    identify: Callable[[], str] | None = field(default=None, compare=False)
    free_memory: Callable[[], int | None] | None = field(default=None, compare=False)
    configure: Callable[[Mapping[str, str]], Target] | None = field(default=None, compare=False)

    @property
    def runs_on(self) -> str:
        """Name of the provider or runtime that runs the nodes."""
        return self.provider or self.runtime

    @property
    def made_for(self) -> str:
        """Name of the provider or runtime that models are made for. Passes use this name."""
        return self.prepares_for or self.runs_on

    @property
    def plain(self) -> Target:
        """Returns the target without its functions, for other processes, with the device of this machine."""
        hardware = self.identify() if self.identify else self.hardware
        return replace(self, probe=None, configure=None, identify=None, free_memory=None, hardware=hardware)

    def within_threads(self, session: SessionConfig) -> SessionConfig:
        """Returns session settings of onnxruntime that use no more threads than the target has."""
        own = session.threads
        if not self.threads or 0 < own <= self.threads:
            return session
        return session.updated(SessionConfig({THREADS: self.threads}))

    def unavailable(self) -> str | None:
        """Returns the reason why the target cannot be used here, or None."""
        return self.probe() if self.probe else None
