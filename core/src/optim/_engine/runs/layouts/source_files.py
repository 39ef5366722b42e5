"""Where the files of a run's source lie that its folder keeps: config, tokenizer, pooling."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from optim.source import CONFIG_FILE

if TYPE_CHECKING:
    from optim._engine.runs.outcome import Outcome
    from optim._engine.search.settings import RunSettings

_GRAPHS = "onnx"
"""The folder of a hub's repository that has its graphs, beside the config."""


@dataclass(frozen=True, slots=True)
class SourceFiles:
    """A folder that has them.

    Attributes:
        folder: of the source.
        links: whether links in it are followed, as in the cache of the hub.
    """

    folder: Path
    links: bool


def files_of(settings: RunSettings) -> Path | None:
    """The folder that has what belongs to the source of a run and is no graph; None where there is none."""
    if settings.export is not None:
        return settings.export.folder
    source = settings.source.absolute()
    places = [source] if source.is_dir() else [source.parent]
    if source.parent.name == _GRAPHS:
        places.append(source.parent.parent)
    return next((folder for folder in places if (folder / CONFIG_FILE).is_file()), None)


def source_files(outcome: Outcome, kept: Path | None, named: Path | None) -> SourceFiles | None:
    """The files that the folder of a run keeps; None where its source has none.

    A folder that the user named may have links. Beside a graph they are followed where the graph is one too, as in
    the cache of the hub: what a stranger packed may lead anywhere.

    Args:
        outcome: of the run.
        kept: run folder that keeps them already.
        named: folder that the user named for layouts.
    """
    if named is not None:
        return SourceFiles(named, links=True)
    if kept is not None:
        return SourceFiles(kept, links=False)
    if outcome.exported is not None:
        folder = outcome.exported.request.folder
        return SourceFiles(folder, links=True) if folder is not None else None
    if outcome.known is not None:
        return SourceFiles(outcome.known.folder, links=False)
    found = files_of(outcome.settings)
    return SourceFiles(found, links=outcome.settings.source.is_symlink()) if found is not None else None
