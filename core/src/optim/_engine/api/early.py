"""What a command refuses at once: nothing heavy is imported until all of this is in order."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from optim._engine.feeds.named import require_feeds
from optim._engine.graphs.file_there import check_file
from optim._engine.json_file import read_json
from optim._engine.plugins.registry import load_registry, require_target
from optim._engine.sources.export_file import EXPORT_FILE, read_export_file
from optim._engine.sources.naming import needs_export
from optim.errors import ExitStatus, OptimError

if TYPE_CHECKING:
    from optim._engine.search.settings import RunSettings

_MODEL_IN_FOLDER = "model.onnx"
_REPORT = "report.json"
_SESSION = "session.json"


def require_run(settings: RunSettings) -> None:
    """Refuse a run whose words make no sense, or whose files are not there.

    Raises:
        OptimError: usage, a missing model or feeds, a target that is not there.
    """
    settings.require_sound()
    if settings.export is None:
        for file in _files_of(settings.source):
            check_file(file)
    if settings.data is not None:
        require_feeds(settings.data)
    require_target(load_registry(), settings.target)


def _files_of(source: Path) -> list[Path]:
    """The graphs of a folder that an export wrote, and nothing else; or the file itself."""
    if not (source / EXPORT_FILE).is_file() or (source / _REPORT).is_file():
        return [source]
    exported = read_export_file(source)
    return [source / component.file for component in exported.components.values()] if exported else [source]


def require_models(models: Sequence[Path], data: str | None, target: str) -> None:
    """Refuse models, run folders, feeds or a target that are not there.

    Raises:
        OptimError: as :func:`require_run`.
    """
    for path in models:
        if not needs_export(str(path)):
            filled = any((path / name).is_file() for name in (_REPORT, _SESSION))
            check_file(path / _MODEL_IN_FOLDER if filled else path)
    if data is not None:
        require_feeds(data)
    require_target(load_registry(), target)


def default_output(source: Path) -> Path:
    """``MODEL-optim`` in the working folder, unless the result of another model lies there.

    Raises:
        OptimError[not-our-folder]: a run of another model filled it.
    """
    name = source.resolve().name.rpartition(":")[2]
    output = Path(f"{name.removesuffix('.onnx')}-optim")
    try:
        earlier = Path(read_json(output / _REPORT)["original"]["path"])
    except (OSError, ValueError, KeyError, TypeError):
        return output  # what else may lie there is looked at when it is claimed
    if earlier.absolute() != source.absolute():
        raise OptimError(
            "not-our-folder",
            f"{output} holds the result of another model",
            f"it was made of {earlier}",
            "name a folder: -o DIR",
            status=ExitStatus.USAGE,
        )
    return output
