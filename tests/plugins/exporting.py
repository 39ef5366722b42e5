"""Exports in this process: the three jobs of :mod:`optim._engine.sources.make`, one after the other."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import onnx
import onnxruntime

from optim._engine.generation.decoder import Decoder
from optim._engine.plugins.registry import load_registry
from optim._engine.sources import check_job, export_job, reference_job
from optim._engine.sources.evidence import Evidence
from optim._engine.sources.export_job import Graph
from optim._engine.sources.pipeline import Choice, SourceStep
from optim._engine.sources.verify import Verified
from optim.onnx.files import deliver
from optim.source import SourceRequest


class Silent:
    """A channel to nobody."""

    def event(self, name: str, **fields: Any) -> None:
        logging.getLogger("test").debug("%s %s", name, fields)


@dataclass(frozen=True)
class Exported:
    """A source as graphs, verified."""

    folder: Path
    graphs: dict[str, Graph]
    steps: dict[str, SourceStep]
    verified: dict[str, Verified]
    evidence: Evidence
    notes: tuple[str, ...]

    def path(self, name: str = "model") -> Path:
        """A graph as it would be delivered."""
        deliver(self.graphs[name].model, self.folder / "delivered", name=f"{name}.onnx")
        return self.folder / "delivered" / f"{name}.onnx"

    def proto(self, name: str = "model") -> onnx.ModelProto:
        return onnx.load(self.graphs[name].model.path, load_external_data=False)

    def session(self, name: str = "model") -> onnxruntime.InferenceSession:
        return onnxruntime.InferenceSession(str(self.path(name)), providers=["CPUExecutionProvider"])

    def decoder(self) -> Decoder:
        return Decoder.of_sessions({name: self.session(name) for name in self.graphs}, self.evidence.facts)


def export(
    spec: str | Path,
    folder: Path,
    *,
    named: Mapping[str, Any] | None = None,
    without: tuple[str, ...] = (),
    **request: Any,
) -> Exported:
    """Record, export and verify a source."""
    asked = SourceRequest(str(spec), **request)
    target = replace(load_registry().target("cpu"), probe=None)
    choice = Choice(dict(named or {}), without)
    channel: Any = Silent()
    recorded = reference_job.run(reference_job.Request(asked, target, choice, folder / "evidence"), channel).evidence
    made = export_job.run(export_job.Request(asked, target, choice, folder / "store"), channel)
    models = {graph.component: graph.model for graph in made.graphs}
    checked = check_job.run(check_job.Request(models, folder / "evidence", made.lossy), channel)
    return Exported(
        folder,
        {graph.component: graph for graph in made.graphs},
        {step.name: step for step in made.steps},
        {found.component: found for found in checked.verified},
        recorded,
        made.notes,
    )
