"""What core runs of this plugin if a source must be exported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from optim import ExportedFolder
from optim.engine.export import ExportConditions, ExportedComponent, ExportedGraph, needs_export, require_max_drift
from optim.errors import OptimError
from optim.jobs import to_wire
from optim.source import SourceRequest
from optim_plugins.export import result_job
from optim_plugins.export.folder import write_export
from optim_plugins.export.make import MadeExport, make_graphs
from optim_plugins.export.named import foretold_facts, may_be_loaded, nothing_to_export


class VerifiedExport:
    """Keeps the contract :class:`optim.engine.export.ExportPipeline`."""

    witness = result_job.JOB

    def foretold(self, spec: str) -> Mapping[str, Any]:
        """From its ``config.json``."""
        return foretold_facts(Path(spec))

    def export(self, request: SourceRequest, conditions: ExportConditions) -> Sequence[ExportedGraph]:
        """Into the store."""
        return make_graphs(request, conditions).graphs

    def write(self, request: SourceRequest, output: Path, conditions: ExportConditions) -> ExportedFolder:
        """Into a folder of the user, and describe it."""
        require_max_drift(request.max_drift, "leave it out for what rounding explains")
        known = needs_export(request.spec)
        if not known and not may_be_loaded(request.spec):
            raise nothing_to_export(request.spec, output)
        try:
            made = write_export(request, output, conditions)
        except OptimError as error:
            if known or error.reference != "source-not-loadable":
                raise
            raise nothing_to_export(request.spec, output) from error
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
