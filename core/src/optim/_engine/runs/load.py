"""``optim.load``: the model of a run folder, opened with its tuned settings."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optim._engine.runs.mark import read_mark
from optim._engine.runs.session_file import MODEL_FILE, SESSION_FILE, read_session_file
from optim.errors import ExitStatus, OptimError

if TYPE_CHECKING:
    import onnxruntime

    from optim._engine.backends.own_session import OwnSession
    from optim._engine.generation.decoder import Decoder
    from optim.adapters.session import AdaptedSession, Adapters


def load(
    folder: str | PathLike[str], *, adapter: Adapters | None = None
) -> onnxruntime.InferenceSession | OwnSession | AdaptedSession | Decoder:
    """Open what ``optim run`` or ``optim export`` left in ``folder``.

    ``load.py`` there opens the model without optim, where its runtime can.

    Args:
        folder: of a run or an export.
        adapter: that every run brings which names no other: a file that ``optim adapters convert`` or a run wrote.

    Returns:
        A session of onnxruntime, or one with the same ``run``, ``get_inputs`` and ``get_outputs`` where the target has
        a runtime of its own; where the model takes adapters, a :class:`optim.adapters.session.AdaptedSession`, whose
        ``run`` takes ``adapter`` too; of a decoder that was exported from a source a :class:`optim.Decoder`, which
        generates text and has the session as ``session``.

    Raises:
        OptimError[bad-export-file]: somebody changed ``export.json``.
        OptimError[not-a-run-folder]: nothing there is of a run.
        OptimError[no-model]: the run delivered no model.
        OptimError[bad-session-file]: somebody changed ``session.json``.
        OptimError[provider-missing]: this onnxruntime does not have the provider.
        OptimError[runtime-missing]: no plugin here brings the target.
        OptimError[session-failed]: the runtime refuses the model.
        OptimError[adapter-not-taken]: the model takes no adapters. Others, of an adapter that cannot be read or does
            not fit.
    """
    from optim._engine.sources.export_file import read_export_file

    path = Path(folder)
    exported = read_export_file(path)
    if exported is None:
        return _with_default(open_folder(path), adapter)
    if len(exported.components) == 1 and not exported.generates:
        file = path / next(iter(exported.components.values())).file
        of_a_run = file.name == MODEL_FILE and (file.parent / SESSION_FILE).is_file()
        return _with_default(open_folder(file.parent) if of_a_run else _open(file), adapter)
    from optim._engine.generation.decoder import Decoder

    if not exported.generates:
        raise OptimError(
            "several-models",
            f"{folder} holds several models",
            f"they are {', '.join(exported.components)}",
            f"open one of them: optim.load('{folder}/{next(iter(exported.components))}')",
            status=ExitStatus.USAGE,
        )
    sessions = {name: _open(path / component.file) for name, component in exported.components.items()}
    name = "decoder" if "decoder" in sessions else next(iter(sessions))
    sessions[name], decoder = _with_default(sessions[name], adapter), exported.components[name]
    return Decoder.of_sessions(sessions, {**exported.facts, "state": dict(decoder.state)})


def _with_default(session: Any, adapter: Adapters | None) -> Any:
    """The session with the adapter that its runs bring.

    Raises:
        OptimError[adapter-not-taken]: it takes none.
    """
    from optim.adapters.fit import not_taken
    from optim.adapters.session import AdaptedSession

    if adapter is not None:
        if not isinstance(session, AdaptedSession):
            raise not_taken("an adapter")
        session.default = session.adapters(adapter)
    return session


def _adapted(session: Any, model: Path) -> Any:
    """A session whose runs take adapters, where the graph has inputs for them."""
    from optim.adapters.session import AdaptedSession
    from optim.onnx.adapter_inputs import KEY

    metadata = session.get_modelmeta().custom_metadata_map if hasattr(session, "get_modelmeta") else None
    if metadata is not None and KEY not in metadata:
        return session
    from optim.onnx.files import describe

    inputs = describe(model, digest=model.name).adapters
    return AdaptedSession(session, inputs) if inputs else session


def open_folder(path: Path) -> onnxruntime.InferenceSession | OwnSession | AdaptedSession:
    """The session of a folder with one model, with its tuned settings; raises as :func:`load`."""
    if not (path / MODEL_FILE).is_file() and (read_mark(path) is not None or (path / SESSION_FILE).is_file()):
        raise OptimError(
            "no-model",
            f"the run in {path} delivered no model",
            "report.json there says why, or the run has not finished",
            f"look into {path / 'report.html'}, and run it again: optim run MODEL -o {path}",
            status=ExitStatus.USAGE,
        )
    saved = read_session_file(path)
    if saved.target:
        from optim._engine.backends.own_session import open_own

        return _adapted(open_own(path / MODEL_FILE, saved.target, saved.package, saved.config), path / MODEL_FILE)
    from optim.onnx.sessions import open_session

    session = open_session(path / MODEL_FILE, saved.config, saved.opened_on, libraries=saved.operator_libraries)
    if saved.warm_up:
        session.run(None, {name: zeros.array() for name, zeros in saved.warm_up.items()})
    return _adapted(session, path / MODEL_FILE)


def _open(model: Path) -> Any:
    """A component: with the settings of the run folder that it lies in, else with the runtime's defaults."""
    from optim.model import SessionConfig
    from optim.onnx.sessions import open_session

    if model.name == MODEL_FILE and (model.parent / SESSION_FILE).is_file():
        return open_folder(model.parent)
    return _adapted(open_session(model, SessionConfig()), model)
