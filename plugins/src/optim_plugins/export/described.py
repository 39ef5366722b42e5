"""Writes an export for ``optim.export`` and describes it; refuses what is no source."""

from __future__ import annotations

from pathlib import Path

from optim import ExportedFolder
from optim.engine.export import ExportConditions, ExportedComponent, is_ours, needs_export, require_max_drift, to_wire
from optim.errors import OptimError
from optim.source import CONFIG_FILE, SourceRequest
from optim_plugins.export.folder import write_export
from optim_plugins.export.make import MadeExport


def write_described(request: SourceRequest, output: Path, conditions: ExportConditions) -> ExportedFolder:
    """Write an export into a folder, and describe it.

    Raises:
        OptimError: as ``ExportPipeline.write``.
    """
    require_max_drift(request.max_drift, "leave it out for what rounding explains")
    known = needs_export(request.spec)
    if not known and not _may_be_loaded(request.spec):
        raise _nothing_to_export(request.spec, output)
    try:
        made = write_export(request, output, conditions)
    except OptimError as error:
        if known or error.reference != "source-not-loadable":
            raise
        raise _nothing_to_export(request.spec, output) from error
    return _described(made, output)


def _described(made: MadeExport, output: Path) -> ExportedFolder:
    """Returns what ``optim.export`` answers."""
    components = [
        ExportedComponent(
            name=graph.known.component,
            file=str(output / made.content.components[graph.known.component].file),
            size_bytes=graph.size_bytes,
            inputs=tuple(to_wire(graph.model.inputs)),
            outputs=tuple(to_wire(graph.model.outputs)),
            drift=graph.known.drift,
            trials=graph.report["trials"],
            skipped=graph.report["skipped"],
            tokens=graph.report["tokens"],
        )
        for graph in made.graphs
    ]
    return ExportedFolder(
        source=made.graphs[0].report["source"],
        output=str(output),
        facts=dict(made.content.facts),
        components=tuple(components),
        steps=made.steps,
        notes=made.notes,
        peak_memory_bytes=made.peak_memory_bytes,
        seconds=made.seconds,
    )


def _may_be_loaded(spec: str) -> bool:
    """Returns whether ``spec`` is a folder of another kind, without graphs: a plugin may know how to load it."""
    path = Path(spec)
    return path.is_dir() and not is_ours(path) and any(path.iterdir()) and not any(path.glob("*.onnx"))


def _nothing_to_export(spec: str, output: Path) -> OptimError:
    """Returns why a source for which :func:`needs_export` says no cannot be exported."""
    path = Path(spec)
    if path.is_dir():
        held = ", ".join(sorted(entry.name for entry in path.iterdir())[:4])
        return OptimError(
            "source-without-config",
            f"{path} is not a Hugging Face model folder",
            f"it holds {held}, but no {CONFIG_FILE}" if held else "it is empty",
            f"save the whole model: model.save_pretrained('{path}')",
        )
    if path.is_file():
        return OptimError.usage(
            "source-is-model",
            f"{spec} is nothing to export",
            "it is not a factory and no Hugging Face folder",
            f"optim run {spec} -o {output}",
        )
    return OptimError.usage(
        "source-missing",
        f"there is no {spec}",
        "it is not a folder here, and no package.module:factory",
        "check the path; for a model of the Hugging Face hub write hf://ORG/NAME",
    )
