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
    def of(
        cls,
        session: SessionConfig,
        target: Target,
        *,
        owner: str | None = None,
        model: Model | None = None,
        warm_up: Mapping[str, Zeros] | None = None,
        serving: Serving | None = None,
    ) -> SessionFile:
        """The settings of a model, where it runs, and what it is opened with.

        Args:
            session: its settings.
            target: that it runs on.
            owner: the distribution of the target whose runtime opens it; None: onnxruntime alone does.
            model: whose graph may need libraries of operators, an adapter, and settings around faults of a provider.
            warm_up: inputs of zeros for a first run, unless that is recorded.
            serving: how it did most samples a second.
        """
        if model is not None:
            session = session.updated(settings_around_faults(model.path, target))
        if serving is not None and serving.threads is not None:
            session = session.updated(SessionConfig({THREADS: serving.threads}))
        session = target.within_threads(session) if owner is None else session
        settings = cls(
            target.provider,
            dict(target.provider_options),
            dict(session.session_options),
            dict(session.session_config),
            session.disabled_optimizers,
            tuned_provider_options=session.provider_options,
            adapter=next((one.supplied_by for one in model.adapters), "") if model is not None else "",
            serving=serving,
        )
        if owner is not None:
            return replace(settings, target=target.name, package=owner)
        return replace(
            settings,
            operator_libraries=operator_libraries(model.opset) if model is not None else (),
            library=target.library,
            fallback=target.fallback,
            also=target.also,
            shapes_on_cpu=target.shapes_on_cpu,
            warm_up={} if warm_up is None or _is_replayed(session) else warm_up,
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


def write_session_files(folder: Path, settings: SessionFile, script: str = LOAD_TEXT) -> None:
    """Write ``session.json`` beside ``model.onnx``, and the text ``script`` as ``load.py``, where there is one."""
    from optim.jobs.wire import to_wire

    always = {"provider", "provider_options", "session_options", "session_config"}
    always |= {"disabled_optimizers", "operator_libraries"}
    written = {key: value for key, value in to_wire(settings).items() if value or key in always}
    (folder / SESSION_FILE).write_text(json.dumps(written, indent=2) + "\n", encoding="utf-8")
    if script:
        script = script if settings.target else with_packed(script, settings.config)
        (folder / _LOAD_SCRIPT).write_text(script, encoding="utf-8")


def _is_replayed(session: SessionConfig) -> bool:
    """Whether a CUDA graph is recorded in the first run: it reads and writes the buffers of that run ever after.

    CUDA's provider writes 1 for an option that is on, TensorRT's True.
    """
    keys = ("enable_cuda_graph", "trt_cuda_graph_enable")
    return any(options.get(key) in ("1", "True") for options in session.provider_options.values() for key in keys)
