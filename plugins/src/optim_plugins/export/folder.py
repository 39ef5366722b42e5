"""Writes an export into a folder of the user: its graphs, ``export.json``, and the files of its tokenizer."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

from optim.engine.export import (
    EXPORT_FILE,
    LOAD_TEXT,
    ExportConditions,
    RunFolder,
    SessionFile,
    deliver_linked,
    held_backend,
    loading_script,
    read_export_file,
    write_export_file,
    write_session_files,
)
from optim.errors import OptimError
from optim.layout import carry_files
from optim.onnx import deliver_model
from optim.source import SourceRequest
from optim_plugins.export.make import MadeExport, make_graphs


def write_export(request: SourceRequest, output: Path, conditions: ExportConditions) -> MadeExport:
    """Export a source into a folder.

    Args:
        request: what to export.
        output: absent, empty, or of an earlier export or run; with linked weights, a folder above the weights.
        conditions: under which it is exported.

    Raises:
        OptimError: the source cannot be loaded or exported, or its graphs are not what it computes.
    """
    store = conditions.store
    with store.in_use():
        if request.weights == "link":
            return _export_linked(request, output, conditions)
        with RunFolder.claim(output) as folder:
            made = make_graphs(request, conditions)
            conditions.say("writing the graphs")
            owner = held_backend(conditions.registry, conditions.target.backend).owner
            folder.publish(lambda path: _write_graphs(made, path, conditions, owner))
    store.trim()
    return made


def _write_graphs(made: MadeExport, folder: Path, conditions: ExportConditions, owner: str | None) -> None:
    """Write every component's graph, and what says how they work together.

    Args:
        made: of the source.
        folder: to write to.
        conditions: under which they were exported.
        owner: the distribution whose backend opens them; None: onnxruntime alone does.
    """
    for graph in made.graphs:
        deliver_model(graph.model, folder, name=made.content.components[graph.known.component].file)
    if len(made.graphs) == 1:
        model = made.graphs[0].model
        script = loading_script(conditions.registry, LOAD_TEXT, model) if owner is None else ""
        write_session_files(folder, SessionFile.of(model.session, conditions.target, owner=owner, model=model), script)
    write_export_file(folder, made.content)
    if (files := made.graphs[0].known.files) is not None:
        carry_files(files.folder, folder)


def _export_linked(request: SourceRequest, output: Path, conditions: ExportConditions) -> MadeExport:
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
    made = make_graphs(request, conditions)
    for graph in made.graphs:
        deliver_linked(graph.model, output, name=made.content.components[graph.known.component].file)
    temporary = output / f".{EXPORT_FILE}.{uuid.uuid4().hex}"
    temporary.mkdir()
    try:
        write_export_file(temporary, made.content)
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
