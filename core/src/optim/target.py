"""Where a model will run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from optim.model import THREADS, SessionConfig


@dataclass(frozen=True, slots=True)
class Target:
    """An execution provider on a device, with what it supports.

    Attributes:
        name: what the user writes after ``--target``.
        backend: name of the :class:`optim.Backend` that runs models for it.
        provider: execution provider of onnxruntime, e.g. ``CPUExecutionProvider``.
        runtime: what runs models where that is no provider of onnxruntime, e.g. ``acme-runtime``. A target has one of
            the two, and :attr:`optim.Session.executed_on` calls it by that name.
        provider_options: options of the provider.
        harmless_options: names of provider options that the ``session.json`` of a stranger may set, for providers that
            optim does not know: none that names a file, loads a library or is an address in memory.
        also: providers that take what the first leaves, in order, each with its options: CUDA behind TensorRT. What
            they run counts as run on the target.
        prepares_for: the provider that models are made for where they are judged on another one, as without the
            device; see :attr:`made_for`.
        library: Python package of a provider that is installed apart from onnxruntime and registered with it, e.g.
            ``onnxruntime_qnn``; it has ``get_library_path()``.
        reads_onnx: whether a runtime of its own takes every graph of standard operators that its backend's limits
            admit: plugins then offer passes that write nothing else, such as ``ort.clean``.
        fallback: whether the user admits that nodes which the provider does not take run on the CPU.
        shapes_on_cpu: whether the runtime computes shapes and other integers on the CPU by design. Its backend then
            looks at the record of what ran where, and refuses a model of which anything else runs there.
        device: what a person calls it, e.g. ``CPU``.
        threads: of the processor, so many at most compute a model at a time, as the user chose; 0: as many as the
            runtime takes by itself. Whatever times, compares or opens a model for the target keeps to it.
        hardware: the device that is here, with what its speed depends on; what :attr:`identify` found.
        local: False where no program of this machine runs models on it, as in a browser or on a device elsewhere:
            ``--target auto`` leaves it out.
        timed: False where time means nothing, as on a simulator: the gate then judges validity, drift, where nodes run,
            and size.
        exact: False where it computes in less precision than a model says: every result is then held to the budget.
        remark: what whoever reads a report must know of it, in one sentence.
        requires: passes of role ``requested`` that run for this target unless the user leaves them out by name. Where
            one changes nothing the model goes on as it is.
        runs_sources: whether it runs the module that a model was exported from, and takes no ONNX file: it is for
            ``optim bench --beside`` only.
        viewer: the command that shows a run folder of this target, with ``DIR`` for the folder; empty where there is
            none. Whoever runs for the target is told of it.
        probe: cheap check that returns None where the target is available, else the reason it is not.
            It looks for a library file or a device node and never imports the runtime.
        identify: cheap look at the device that is here, for the key of every measurement and for the report, e.g.
            ``NVIDIA L4, 23 GiB, driver 580.95``; empty where it cannot be told. It never imports the runtime.
        free_memory: cheap look at the memory that is free on the device, in bytes; None where nobody can tell, or where
            models lie in the machine's own memory. So many models are opened at once as fit into half of it.
        configure: makes the target of what stands behind its name in ``--target name:key=value,...``; None where
            there is nothing to choose. Raises OptimError for a key or a value that it does not know.
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
        """What its nodes run on: the provider, or the runtime."""
        return self.provider or self.runtime

    @property
    def made_for(self) -> str:
        """What models are made for; passes go by it: the provider, or the runtime, that runs them in the end."""
        return self.prepares_for or self.runs_on

    @property
    def plain(self) -> Target:
        """The same without its functions, as other processes are told it; they are told the device that is here."""
        hardware = self.identify() if self.identify else self.hardware
        return replace(self, probe=None, configure=None, identify=None, free_memory=None, hardware=hardware)

    def within_threads(self, session: SessionConfig) -> SessionConfig:
        """Settings of a model for a session of onnxruntime that takes no more threads than the target has."""
        own = session.threads
        if not self.threads or 0 < own <= self.threads:
            return session
        return session.updated(SessionConfig({THREADS: self.threads}))

    def unavailable(self) -> str | None:
        """The reason why it cannot be used here, or None."""
        return self.probe() if self.probe else None
