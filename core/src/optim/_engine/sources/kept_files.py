"""Where the files of a run's source lie that its folder keeps: config, tokenizer, pooling."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from optim.source import CONFIG_FILE

if TYPE_CHECKING:
    from optim._engine.sources.export_file import KnownExport
    from optim.source import SourceRequest

_GRAPHS = "onnx"
"""The folder of a hub's repository that has its graphs, beside the config."""


@dataclass(frozen=True, slots=True)
class KeptFiles:
    """A folder that has them.

    Attributes:
        folder: of the source.
        links: whether links in it are followed, as in the cache of the hub.
    """

    folder: Path
    links: bool


def files_of(source: Path, export: SourceRequest | None) -> Path | None:
    """The folder that has what belongs to a source and is no graph; None where there is none.

    Args:
        source: what the user named.
        export: how it is exported; None where it is a graph.
    """
    if export is not None:
        return export.folder
    source = source.absolute()
    places = [source] if source.is_dir() else [source.parent]
    if source.parent.name == _GRAPHS:
        places.append(source.parent.parent)
    return next((folder for folder in places if (folder / CONFIG_FILE).is_file()), None)


def files_to_keep(source: Path, export: SourceRequest | None, known: KnownExport | None) -> KeptFiles | None:
    """The files that the folder of a run keeps; None where its source has none.

    A folder that the user named may have links. Beside a graph they are followed where the graph is one too, as in
    the cache of the hub: what a stranger packed may lead anywhere.

    Args:
        source: what the user named.
        export: how it is exported; None where it is a graph.
        known: what an earlier export says of the graph.
    """
    if known is not None:
        return KeptFiles(known.folder, links=False)
    found = files_of(source, export)
    return KeptFiles(found, links=export is not None or source.is_symlink()) if found is not None else None
