"""``optim export``: a source as a folder with its graphs."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from optim._engine.backends.held import held_backend
from optim._engine.jobs.runner import Runner
from optim._engine.load_script.text import LOAD_TEXT
from optim._engine.plugins.registry import load_registry, require_target
from optim._engine.runs.folder import RunFolder
from optim._engine.runs.session_file import write_session_files
from optim._engine.sources.export_file import (
    EXPORT_FILE,
    ComponentFile,
    ExportFile,
    export_file,
    read_export_file,
    write_export_file,
)
from optim._engine.sources.make import ExportedSource, make_graphs
from optim._engine.sources.naming import needs_export, nothing_to_export
from optim._engine.sources.pipeline import Choice
from optim._engine.store import Store
from optim.errors import OptimError
from optim.jobs.wire import to_wire
from optim.layout import carry_files
from optim.model import SessionConfig
from optim.onnx.files import deliver_linked, deliver_model
from optim.source import SourceRequest
from optim.target import Target

if TYPE_CHECKING:
    from optim._engine.reports.answers import ExportedFolder

DEFAULT_TIMEOUT_S = 3600.0


def export_source(
    request: SourceRequest,
    output: Path,
    say: Callable[[str], None],
    *,
    target: str = "cpu",
    choice: Choice | None = None,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    fresh: bool = False,
) -> ExportedFolder:
    """Export a source into a folder: its graph or graphs, ``export.json``, and the files of its tokenizer.

    Args:
        request: what to export.
        output: absent, empty, or of an earlier export or run; with linked weights, a folder above the weights.
        say: told what is going on.
        target: where the model will run.
        choice: passes named or left out.
        timeout_s: for each of the three jobs.
        fresh: take nothing from the cache.

    Raises:
        OptimError: source-is-model, source-missing, source-without-config: there is nothing to export.
        OptimError: the source cannot be loaded or exported, or its graphs are not what it computes.
    """
    if not needs_export(request.spec):
        raise nothing_to_export(request.spec, output)
    registry, store = load_registry(), Store()
    device = require_target(registry, target)

    def make() -> ExportedSource:
        runner = Runner(store, say, fresh=fresh)
        return make_graphs(request, device, registry, choice or Choice(), runner, timeout_s=timeout_s)

    with store.in_use():
        if request.weights == "link":
            return _described(_export_linked(request, output, make), output)
        with RunFolder.claim(output) as folder:
            made = make()
            say("writing the graphs")
            owner = held_backend(registry, device.backend).owner
            folder.publish(lambda path: _write_graphs(made, path, device, owner))
    store.trim()
    return _described(made, output)


def _described(made: ExportedSource, output: Path) -> ExportedFolder:
    """What a caller is told of the folder."""
    from optim._engine.reports.answers import ExportedComponent, ExportedFolder
    from optim._engine.reports.parts.exported import ExportStepReport

    verified = {found.component: found for found in made.verified}
    components = [
        ExportedComponent(
            name=graph.component,
            file=str(output / file_of(graph.component)),
            size_bytes=graph.size_bytes,
            inputs=tuple(to_wire(graph.model.inputs)),
            outputs=tuple(to_wire(graph.model.outputs)),
            drift=verified[graph.component].drift.relative_error,
            trials=tuple(verified[graph.component].trials),
            skipped=tuple(verified[graph.component].skipped),
            tokens=verified[graph.component].tokens,
        )
        for graph in made.graphs
    ]
    return ExportedFolder(
        source=made.request.spec,
        output=str(output),
        facts=made.facts,
        components=tuple(components),
        steps=tuple(ExportStepReport.model_validate(step) for step in to_wire(made.steps)),
        notes=(*made.notes, *(note for found in made.verified for note in found.notes)),
        peak_memory_bytes=made.peak_memory_bytes,
        seconds=made.seconds,
    )


def _write_graphs(made: ExportedSource, folder: Path, target: Target, owner: str | None = None) -> None:
    """Write every component's graph, and what says how they work together.

    Args:
        made: of the source.
        folder: to write to.
        target: that they were exported for.
        owner: the distribution whose backend opens them; None: onnxruntime alone does.
    """
    for graph in made.graphs:
        deliver_model(graph.model, folder, name=file_of(graph.component))
    if len(made.graphs) == 1:
        script = LOAD_TEXT if owner is None else ""
        write_session_files(folder, SessionConfig(), target, owner=owner, script=script)
    write_export_file(folder, content_of(made, {graph.component: file_of(graph.component) for graph in made.graphs}))
    if made.request.folder is not None:
        carry_files(made.request.folder, folder)


def content_of(made: ExportedSource, files: dict[str, str]) -> ExportFile:
    """``export.json`` for components that lie in ``files``."""
    drift = {verified.component: verified.drift.relative_error for verified in made.verified}
    components = {
        name: ComponentFile(file, made.graph(name).state, drift.get(name, 0.0)) for name, file in files.items()
    }
    return export_file(made.request.spec, made.facts, components)


def file_of(component: str) -> str:
    """What the graph of a component is called."""
    return f"{component}.onnx"


def _export_linked(request: SourceRequest, output: Path, make: Callable[[], ExportedSource]) -> ExportedSource:
    """Write graphs beside the user's weights; nothing that is not ours is replaced."""
    weights = request.folder
    if weights is None or not weights.resolve().is_relative_to(output.absolute().resolve()):
        below = weights or "a Hugging Face folder"
        raise OptimError.usage(
            "weights-not-below",
            f"graphs in {output} cannot point into {weights or request.spec}",
            "ONNX lets a model refer to files in its own folder and below, and onnxruntime follows no links",
            f"write them beside the weights: optim export {below} -o {below} --weights link",
        )
    _refuse_overwriting(output)
    made = make()
    files = {graph.component: file_of(graph.component) for graph in made.graphs}
    for graph in made.graphs:
        deliver_linked(graph.model, output, name=files[graph.component])
    temporary = output / f".{EXPORT_FILE}.{uuid.uuid4().hex}"
    temporary.mkdir()
    try:
        write_export_file(temporary, content_of(made, files))
        os.replace(temporary / EXPORT_FILE, output / EXPORT_FILE)
    finally:
        temporary.rmdir()
    carry_files(weights, output)
    return made


def _refuse_overwriting(output: Path) -> None:
    ours = read_export_file(output)
    written = {component.file for component in ours.components.values()} if ours else set()
    theirs = sorted(file.name for file in output.glob("*.onnx") if file.name not in written)
    clash = [name for name in theirs if name in {"model.onnx", "encoder.onnx", "decoder.onnx"}]
    if clash:
        raise OptimError.usage(
            "not-our-folder",
            f"{output} holds {', '.join(clash)}, which optim did not write",
            f"there is no {EXPORT_FILE} that names it",
            f"move {clash[0]} away, or leave out --weights link",
        )
