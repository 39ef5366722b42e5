"""``optim.load``: the model of a run folder, opened with its tuned settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from optim._engine.goals.generating import GENERATOR
from optim._engine.plugins.plugin import EnginePart
from optim._engine.plugins.registry import load_registry
from optim._engine.runs.folder import read_mark
from optim._engine.runs.session_file import MODEL_FILE, SESSION_FILE, SessionFile
from optim._engine.runs.session_trust import read_session_file
from optim.decoders.conventions import carried_by_name
from optim.errors import OptimError
from optim.model import PACKED_WEIGHTS

if TYPE_CHECKING:
    import onnxruntime

    from optim._engine.backends.own_session import OwnSession
    from optim.arrays import Array
    from optim.decoders import Decoder
    from optim.model import AdapterInput


class AdapterOpener(Protocol):
    """Opens models with adapters. A class of it is made without arguments; ``adapter`` is what ``load`` is given."""

    def adapted(self, session: Any, inputs: Sequence[AdapterInput], adapter: Any) -> Any:
        """A session whose runs take adapters, with the one that its runs bring; refuses a model that takes none."""

    def supplied(self, inputs: Sequence[AdapterInput], named: Path, adapter: Any) -> dict[str, Array]:
        """Arrays for all initializers that a model does not have itself, from the file beside it by default."""

    def share_out(self, given: Any, inputs: Mapping[str, Sequence[AdapterInput]]) -> dict[str, Any]:
        """Returns the arrays of each of several models; refuses an array that is for none of them, or for several."""


_ADAPTER_OPENER: EnginePart[AdapterOpener] = EnginePart("adapter_opener", "adapters")


def load(
    folder: str | PathLike[str], *, adapter: Any = None, packed: bool = False
) -> onnxruntime.InferenceSession | OwnSession | Decoder:
    """Opens the model of a folder of ``optim run`` or ``optim export``.

    ``load.py`` in the folder opens the model without optim, if its runtime can.

    Args:
        folder: folder of a run or an export.
        adapter: adapter of every call that names no other: a file of ``optim adapters convert`` or of a run, or an
            ``optim_plugins.adapted.Adapter``; several as a sequence. If opening the model supplies the adapter, this
            one takes its place. None: the model's own.
        packed: map weights as onnxruntime packed them for this processor. If they are not packed yet, onnxruntime packs
            them first. The model then opens sooner, and processes share the memory. Only for a run folder with one
            model on the CPU.

    Returns:
        A session of onnxruntime, or of another runtime with the same ``run``, ``get_inputs`` and ``get_outputs``. If
            the model takes adapters, an ``optim_plugins.adapted.AdaptedSession``, whose ``run`` also takes ``adapter``.
            For a decoder that can generate, an ``optim.Decoder``, which has the session as ``session``.

    Raises:
        OptimError[bad-export-file]: somebody changed ``export.json``.
        OptimError[not-a-run-folder]: the folder is not of a run.
        OptimError[no-model]: the run delivered no model.
        OptimError[bad-session-file]: somebody changed ``session.json``.
        OptimError[provider-missing]: this onnxruntime does not have the provider.
        OptimError[runtime-missing]: no plugin here has the target.
        OptimError[plugin-missing]: the source has several graphs and generates, and no plugin drives them. Or the model
            takes adapters, and plugin ``adapters`` is not installed.
        OptimError[session-failed]: the runtime refuses the model.
        OptimError[cannot-be-packed]: another runtime packs the weights, or they are not the model's.
        OptimError[adapter-not-taken]: the model takes no adapters. There are further errors for an adapter that cannot
            be read or does not fit.
    """
    from optim._engine.sources.export_file import read_export_file

    path = Path(folder)
    if packed:
        return _packed(path, adapter)
    exported = read_export_file(path)
    if exported is None:
        return _generating(_open_folder(path, adapter))
    if len(exported.components) == 1 and not exported.generates:
        return _open(path / next(iter(exported.components.values())).file, adapter)
    if not exported.generates:
        raise OptimError.usage(
            "several-models",
            f"{folder} holds several models",
            f"they are {', '.join(exported.components)}",
            f"open one of them: optim.load('{folder}/{next(iter(exported.components))}')",
        )
    name = "decoder" if "decoder" in exported.components else next(iter(exported.components))
    files = {one: path / component.file for one, component in exported.components.items()}
    given: dict[str, Any] = {}
    if adapter is not None:
        given = _adapter_opener(path).share_out(adapter, {one: _inputs_of(file) for one, file in files.items()})
    sessions = {one: _open(file, given.get(one)) for one, file in files.items()}
    generator = load_registry().part(GENERATOR, f"{folder} cannot be opened as what generates")
    return generator.opened(sessions, {**exported.facts, "state": dict(exported.components[name].state)})


def _generating(session: Any) -> Any:
    """The session; where ``load.py`` has ``generate`` too, a ``optim.Decoder``."""
    inputs, outputs = ([value.name for value in values] for values in (session.get_inputs(), session.get_outputs()))
    if not carried_by_name(inputs, outputs):
        return session  # no past: no plugin is asked
    generator = load_registry().find_part(GENERATOR)
    return (generator.opened({"": session}, {}) if generator is not None else None) or session


def _packed(path: Path, adapter: Any) -> onnxruntime.InferenceSession:
    """The session of a run folder over packed weights; it takes no adapter, not in silence either."""
    from optim._engine.backends.packed import open_packed

    saved = _saved(path)
    reasons = {
        "its weights are supplied with the session": bool(saved.adapter),
        "it has operators of other packages": bool(saved.operator_libraries),
        "an adapter is given, and such a session accepts none": adapter is not None,
    }
    if reason := next((text for text, holds in reasons.items() if holds), ""):
        raise OptimError.usage(
            "cannot-be-packed", f"{path} cannot be opened with packed weights", reason, "open it without packed=True"
        )
    return open_packed(path / MODEL_FILE, saved.config, "" if saved.target else saved.provider)


def _adapted(session: Any, model: Path, adapter: Any) -> Any:
    """A session whose runs take adapters, where the graph has inputs for them, with the one that its runs bring."""
    from optim.onnx.adapter_inputs import KEY

    metadata = session.get_modelmeta().custom_metadata_map if hasattr(session, "get_modelmeta") else None
    inputs = _inputs_of(model) if metadata is None or KEY in metadata else ()
    return _adapter_opener(model).adapted(session, inputs, adapter) if inputs or adapter is not None else session


def _adapter_opener(path: Path) -> AdapterOpener:
    return load_registry().part(_ADAPTER_OPENER, f"{path} cannot be opened with adapters")


def _inputs_of(model: Path) -> tuple[AdapterInput, ...]:
    from optim.onnx.files import describe_model

    return describe_model(model, digest=model.name).adapters


def _open_folder(path: Path, adapter: Any = None) -> onnxruntime.InferenceSession | OwnSession:
    """The session of a folder with one model, with its tuned settings; raises as ``load``."""
    saved, model = _saved(path), path / MODEL_FILE
    if PACKED_WEIGHTS in saved.session_config:
        return _packed(path, adapter)
    if saved.target:
        from optim._engine.backends.own_session import open_own

        return _adapted(open_own(model, saved.target, saved.package, saved.config), model, adapter)
    from optim.onnx.sessions import open_session

    supplied: dict[str, Array] = {}
    if saved.adapter:
        supplied = _adapter_opener(path).supplied(_inputs_of(model), path / saved.adapter, adapter)
    session = open_session(model, saved.config, saved.opened_on, libraries=saved.operator_libraries, supplied=supplied)
    if saved.warm_up:
        session.run(None, {name: zeros.array() for name, zeros in saved.warm_up.items()})
    return _adapted(session, model, adapter)


def _saved(path: Path) -> SessionFile:
    """The contents of ``session.json`` in a folder with a model; raises as ``load``."""
    if not (path / MODEL_FILE).is_file() and (read_mark(path) is not None or (path / SESSION_FILE).is_file()):
        from optim._engine.runs.folder import report_page

        raise OptimError.usage(
            "no-model",
            f"the run in {path} delivered no model",
            "the run has not finished, or report.json says why",
            f"read {report_page(path)}, then: optim run MODEL -o {path}",
        )
    return read_session_file(path)


def _open(model: Path, adapter: Any) -> Any:
    """A component: with the settings of the run folder that it lies in, else with the runtime's defaults."""
    from optim.model import SessionConfig
    from optim.onnx.libraries import operator_libraries
    from optim.onnx.sessions import open_session
    from optim.onnx.skeleton import read_skeleton

    if model.name == MODEL_FILE and (model.parent / SESSION_FILE).is_file():
        return _open_folder(model.parent, adapter)
    domains: list[str] = []
    with suppress(OSError, OptimError):  # onnxruntime says what is wrong with it
        domains = [opset.domain for opset in read_skeleton(model).opset_import]
    needed = operator_libraries(domains)
    return _adapted(open_session(model, SessionConfig(), libraries=needed), model, adapter)
