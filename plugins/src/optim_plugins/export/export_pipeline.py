"""What core runs of this plugin if a source must be exported."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from optim import ExportedFolder
from optim.engine.export import ExportConditions, ExportedGraph
from optim.source import SourceRequest
from optim_plugins.export import result_job
from optim_plugins.export.described import write_described
from optim_plugins.export.make import make_graphs


class VerifiedExport:
    """Keeps the contract :class:`optim.engine.export.ExportPipeline`."""

    witness = result_job.JOB

    def export(self, request: SourceRequest, conditions: ExportConditions) -> Sequence[ExportedGraph]:
        """Into the store."""
        return make_graphs(request, conditions).graphs

    def write(self, request: SourceRequest, output: Path, conditions: ExportConditions) -> ExportedFolder:
        """Into a folder of the user."""
        return write_described(request, output, conditions)
