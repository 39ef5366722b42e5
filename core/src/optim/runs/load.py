"""``optim.load``: the model of a run folder, opened with its tuned settings."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from optim.errors import ExitStatus, OptimError
from optim.runs.mark import read_mark
from optim.runs.session_file import MODEL_FILE, SESSION_FILE, read_session_file

if TYPE_CHECKING:
    import onnxruntime


def load(folder: str | PathLike[str]) -> onnxruntime.InferenceSession:
    """Open what ``optim run`` left in ``folder``; ``load.py`` there does the same with onnxruntime alone.

    Raises:
        OptimError[not-a-run-folder]: nothing there is of a run.
        OptimError[no-model]: the run delivered no model.
        OptimError[bad-session-file]: somebody changed ``session.json``.
        OptimError[provider-missing]: this onnxruntime does not have the provider.
        OptimError[session-failed]: onnxruntime refuses the model.
    """
    from optim.onnxruntime_sessions import open_session

    path = Path(folder)
    if not (path / MODEL_FILE).is_file() and (read_mark(path) is not None or (path / SESSION_FILE).is_file()):
        raise OptimError(
            "no-model", f"the run in {folder} delivered no model",
            "report.json there says why, or the run has not finished", status=ExitStatus.USAGE,
        )  # fmt: skip
    saved = read_session_file(path)
    return open_session(
        path / MODEL_FILE, saved.config, saved.provider, saved.provider_options,
        libraries=saved.operator_libraries,
    )  # fmt: skip
