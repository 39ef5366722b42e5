"""``session.json``, how the model of a run folder is opened, and ``load.py``, which does so with onnxruntime alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from optim._engine.jobs.start_up import Zeros
from optim._engine.load_script import LOAD_TEXT, with_packed
from optim.goal import Serving
from optim.model import THREADS, Model, SessionConfig
from optim.onnx.libraries import operator_libraries
from optim.providers.names import settings_around_faults
from optim.target import Target

SESSION_FILE = "session.json"
_LOAD_SCRIPT = "load.py"
MODEL_FILE = "model.onnx"
NEAREST_FOLDER = "nearest"
"""Where a run whose budget nothing meets keeps the model that is nearest to it."""


@dataclass(frozen=True, slots=True)
class SessionFile:
    """What ``session.json`` holds.

    Attributes:
        provider: execution provider of onnxruntime; empty where another runtime opens the model.
        provider_options: of the provider.
        library: Python package of a provider that is installed apart from onnxruntime; empty for the others.
        fallback: whether nodes that the provider does not take may run on the CPU.
        session_options: attributes of ``onnxruntime.SessionOptions``, enums by name.
        session_config: config entries as strings.
        disabled_optimizers: graph optimizers of the runtime that are switched off.
        operator_libraries: packages whose ``get_library_path()`` is registered before the model is opened.
        target: that opens the model where onnxruntime alone does not, with its settings; empty where it does.
        package: the distribution that brings that target.
        also: providers that take what the first leaves, in order, with their options.
        shapes_on_cpu: whether shapes and other integers may be computed on the CPU.
        tuned_provider_options: options that a pass chose for the model, by provider, laid over the target's.
        warm_up: inputs of zeros on which the model is run when it is opened: memory is taken and kernels are chosen
            then, and not in a caller's first run. Empty where that does not pay.
        adapter: file beside the model whose arrays it is opened with; empty where the model has all of its own.
        serving: how it did most samples a second, where that was the goal: for whoever calls it. Its threads are among
            the session's options.
    """

    provider: str
    provider_options: Mapping[str, str] = field(default_factory=dict)
    session_options: Mapping[str, bool | int | str] = field(default_factory=dict)
    session_config: Mapping[str, str] = field(default_factory=dict)
    disabled_optimizers: tuple[str, ...] = ()
    operator_libraries: tuple[str, ...] = ()
    library: str = ""
    fallback: bool = False
    target: str = ""
    package: str = ""
    also: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    shapes_on_cpu: bool = False
    tuned_provider_options: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    warm_up: Mapping[str, Zeros] = field(default_factory=dict)
    adapter: str = ""
    serving: Serving | None = None

    @classmethod
    def of(cls, session: SessionConfig, target: Target, *, owner: str | None = None) -> SessionFile:
        """The settings of a model, and where it runs; without ``owner`` onnxruntime alone opens it."""
        session = target.within_threads(session) if owner is None else session
        settings = cls(
            target.provider,
            dict(target.provider_options),
            dict(session.session_options),
            dict(session.session_config),
            session.disabled_optimizers,
            tuned_provider_options=session.provider_options,
        )
        if owner is not None:
            return replace(settings, target=target.name, package=owner)
        return replace(
            settings,
            library=target.library,
            fallback=target.fallback,
            also=target.also,
            shapes_on_cpu=target.shapes_on_cpu,
        )

    @property
    def opened_on(self) -> Target:
        """Where onnxruntime opens it."""
        return Target(
            "",
            "",
            self.provider,
            self.provider_options,
            library=self.library,
            fallback=self.fallback,
            also=self.also,
            shapes_on_cpu=self.shapes_on_cpu,
        )

    @property
    def config(self) -> SessionConfig:
        """The settings without the provider."""
        return SessionConfig(
            self.session_options, self.session_config, self.disabled_optimizers, self.tuned_provider_options
        )


@dataclass(frozen=True, slots=True)
class Opening:
    """What a model is opened with beside its settings: fields of :class:`SessionFile`."""

    warm_up: Mapping[str, Zeros] = field(default_factory=dict)
    operator_libraries: tuple[str, ...] = ()
    adapter: str = ""
    serving: Serving | None = None

    @classmethod
    def of(cls, model: Model, warm_up: Mapping[str, Zeros] | None = None, serving: Serving | None = None) -> Opening:
        """Reads from a model of the store what it is opened with."""
        adapter = next((one.supplied_by for one in model.adapters), "")
        return cls(warm_up or {}, operator_libraries(model.opset), adapter, serving)


def write_session_files(
    folder: Path,
    session: SessionConfig,
    target: Target,
    *,
    owner: str | None = None,
    script: str = LOAD_TEXT,
    opening: Opening | None = None,
) -> None:
    """Write ``session.json`` beside ``model.onnx``, and the text ``script`` as ``load.py``, where there is one."""
    from optim.jobs.wire import to_wire

    opening = opening or Opening()
    if (folder / MODEL_FILE).is_file():
        session = session.updated(settings_around_faults(folder / MODEL_FILE, target))
    if opening.serving is not None and opening.serving.threads is not None:
        session = session.updated(SessionConfig({THREADS: opening.serving.threads}))
    settings = SessionFile.of(session, target, owner=owner)
    settings = replace(settings, serving=opening.serving, adapter=opening.adapter)
    if owner is None:
        warm_up = {} if _is_replayed(session) else opening.warm_up
        settings = replace(settings, operator_libraries=opening.operator_libraries, warm_up=warm_up)
    written = to_wire(settings)
    seldom = {"library", "fallback", "target", "package", "also", "shapes_on_cpu", "tuned_provider_options"}
    seldom |= {"warm_up", "adapter", "serving"}
    written = {key: value for key, value in written.items() if value or key not in seldom}
    text = json.dumps(written, indent=2)
    (folder / SESSION_FILE).write_text(text + "\n", encoding="utf-8")
    if script and owner is None:
        script = with_packed(script, session)
    if script:
        (folder / _LOAD_SCRIPT).write_text(script, encoding="utf-8")


def _is_replayed(session: SessionConfig) -> bool:
    """Whether a CUDA graph is recorded in the first run: it reads and writes the buffers of that run ever after."""
    keys = ("enable_cuda_graph", "trt_cuda_graph_enable")
    return any(options.get(key) in _ON for options in session.provider_options.values() for key in keys)


_ON = ("1", "True")
"""How CUDA's provider and TensorRT's write that an option is on."""
