"""``export.json``, which says what the graphs of a folder were exported from; and the files that a run keeps."""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optim._engine.json_file import read_json
from optim.errors import OptimError
from optim.source import CONFIG_FILE

if TYPE_CHECKING:
    from optim.source import SourceRequest


EXPORT_FILE = "export.json"


@dataclass(frozen=True, slots=True)
class ComponentFile:
    """One graph of a folder.

    Attributes:
        state: by output, the input that takes it in the next step.
        drift: from the source, of the worst output.
    """

    file: str
    state: Mapping[str, str] = field(default_factory=dict)
    drift: float = 0.0


@dataclass(frozen=True, slots=True)
class ExportFile:
    """What ``export.json`` holds.

    Attributes:
        optim: version that wrote it.
        source: name of the folder, or the factory.
        facts: of the source: its kind, task, architecture; ids that begin, end and pad a text.
        components: by name.
    """

    optim: str
    source: str
    facts: Mapping[str, Any]
    components: Mapping[str, ComponentFile]

    @property
    def generates(self) -> bool:
        """Whether a generation loop can drive it."""
        return self.facts.get("kind") in ("decoder", "encoder-decoder")

    def with_results(self, results: Mapping[str, tuple[str, float]]) -> ExportFile:
        """The file for a folder that holds these components alone, made anew: each in a file, with its drift."""
        made = {name: replace(self.components[name], file=file, drift=far) for name, (file, far) in results.items()}
        return replace(self, components=made)


def export_file(source: str, facts: Mapping[str, Any], components: Mapping[str, ComponentFile]) -> ExportFile:
    """The file for graphs that this version exported."""
    named = Path(source).name if Path(source).is_dir() else source
    return ExportFile(importlib.metadata.version("optim-core"), named, facts, components)


def write_export_file(folder: Path, content: ExportFile) -> None:
    """Write ``export.json``."""
    from optim.jobs.wire import to_wire

    (folder / EXPORT_FILE).write_text(json.dumps(to_wire(content), indent=2) + "\n", encoding="utf-8")


def read_export_file(folder: Path) -> ExportFile | None:
    """What ``export.json`` in a folder says; None where there is none.

    Raises:
        OptimError[bad-export-file]: it is not what :func:`write_export_file` writes.
    """
    from optim.jobs.wire import from_wire

    path = folder / EXPORT_FILE
    if not path.is_file():
        return None
    try:
        found = from_wire(ExportFile, read_json(path))
        for name, component in found.components.items():
            _require_inside(name, component.file)
    except ValueError as error:
        raise OptimError(
            "bad-export-file", f"{path} cannot be used", str(error).splitlines()[0], "export the source again"
        ) from error
    return found


def _require_inside(name: str, file: str) -> None:
    """Refuse a component whose folder or file would lie elsewhere."""
    if Path(name).name != name:
        raise ValueError(f"component {name!r} is not a plain name")
    if Path(file).is_absolute() or ".." in Path(file).parts or not file:
        raise ValueError(f"file {file!r} of component {name} is outside of its folder")


@dataclass(frozen=True, slots=True)
class KeptFiles:
    """A folder that has them.

    Attributes:
        links: whether links in it are followed, as in the cache of the hub.
    """

    folder: Path
    links: bool


@dataclass(frozen=True, slots=True)
class KnownExport:
    """What is known of a graph that was exported, by this run or an earlier export.

    Attributes:
        files: those of its source; None: there are none.
    """

    content: ExportFile
    component: str
    files: KeptFiles | None

    @property
    def drift(self) -> float:
        """How far it is from its source."""
        return self.content.components[self.component].drift

    def drift_of(self, from_graph: float | None, from_source: float | None) -> float:
        """Returns how far a result is from the source: as measured, else at most as far as both drifts together."""
        return from_source if from_source is not None else self.drift + (from_graph or 0.0)


def known_export(model: Path) -> KnownExport | None:
    """The facts of a model file in an ``export.json`` beside it or in the folder above; None if there is none."""
    for folder in (model.parent, model.parent.parent):
        content = read_export_file(folder)
        for name, component in (content.components if content else {}).items():
            if content is not None and (folder / component.file).absolute() == model.absolute():
                return KnownExport(content, name, KeptFiles(folder, links=False))
    return None


_GRAPHS = "onnx"
"""The folder of a hub's repository that has its graphs, beside the config."""


def files_of(source: Path, export: SourceRequest | None) -> Path | None:
    """The folder that has what belongs to a source and is no graph; None where there is none."""
    if export is not None:
        return export.folder
    source = source.absolute()
    places = [source] if source.is_dir() else [source.parent]
    if source.parent.name == _GRAPHS:
        places.append(source.parent.parent)
    return next((folder for folder in places if (folder / CONFIG_FILE).is_file()), None)


def files_to_keep(source: Path, known: KnownExport | None) -> KeptFiles | None:
    """The files that the folder of a run keeps; None where its source has none.

    A folder that the user named may have links. Beside a graph they are followed where the graph is one too, as in
    the cache of the hub: what a stranger packed may lead anywhere.
    """
    if known is not None:
        return known.files
    found = files_of(source, None)
    return KeptFiles(found, links=source.is_symlink()) if found is not None else None
