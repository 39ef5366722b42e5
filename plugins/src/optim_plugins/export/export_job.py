"""Job: load a source, run the passes before export, and turn every component into a graph in the store."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from optim.engine.export import Choice, ExportStepReport, Job, load_registry, store_graph
from optim.jobs import Channel
from optim.model import Model
from optim.onnx import model_size_bytes, operator_counts
from optim.source import Component, Source, SourceContext, SourceRequest
from optim.source_passes import Exported
from optim.target import Target
from optim_plugins.export.pipeline import Pipeline
from optim_plugins.export.weights import link_weights, unmap_weights

if TYPE_CHECKING:
    import onnx_ir as ir


@dataclass(frozen=True, slots=True)
class Request:
    """A source, where it will run, what the user said of passes, and the folder to write to."""

    source: SourceRequest
    target: Target
    choice: Choice
    folder: Path


@dataclass(frozen=True, slots=True)
class Graph:
    """A component in the store.

    Attributes:
        size_bytes: on disk once delivered.
        operators: nodes by operator.
        state: by output, the input that takes it in the next step.
    """

    component: str
    model: Model
    size_bytes: int
    operators: dict[str, int]
    state: dict[str, str]


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a source.

    Attributes:
        graphs: of its components, in order.
        steps: every pass and exporter, for the report.
        notes: for the report.
        lossy: a pass changed more than rounding explains, because the user named it.
    """

    graphs: tuple[Graph, ...]
    steps: tuple[ExportStepReport, ...]
    notes: tuple[str, ...]
    lossy: bool


JOB = Job(__name__, Request, Answer)


def run(request: Request, channel: Channel) -> Answer:
    """Load, change, export, store."""
    with source_context(request.target, request.folder.parent, channel) as context:
        pipeline = Pipeline(load_registry(), context, request.choice)
        source = pipeline.prepare(pipeline.load(request.source))
        notes: list[str] = []
        graphs = []
        for component in source.components:
            exported = pipeline.export(component)
            set_dimensions(exported.graph, component)
            notes += _place_weights(exported, source, request)
            graphs.append(_store(exported, component, request.folder))
        return Answer(tuple(graphs), tuple(pipeline.steps), tuple(notes), pipeline.lossy)


def set_dimensions(graph: ir.Model, component: Component) -> None:
    """Give dynamic dimensions the names that the component declares, whatever the exporter called them."""
    import onnx_ir as ir

    for values, declared in ((graph.graph.inputs, component.inputs), (graph.graph.outputs, component.outputs)):
        infos = {info.name: info for info in declared}
        for value in values:
            info = infos.get(value.name or "")
            if info is None or info.shape is None or value.shape is None or len(info.shape) != len(value.shape):
                continue
            names = [
                wanted if isinstance(wanted, str) and not isinstance(found, int) else found
                for wanted, found in zip(info.shape, value.shape, strict=True)
            ]
            value.shape = ir.Shape(names)


def _place_weights(exported: Exported, source: Source, request: Request) -> list[str]:
    if request.source.weights == "copy":
        unmap_weights(exported.graph, source.weight_files)
        return []
    linked, left = link_weights(exported.graph, source.weight_files)
    note = f"{linked / 1e6:.1f} MB of weights stay in {', '.join(sorted({f.name for f in source.weight_files}))}"
    return [note + (f"; {left / 1e6:.1f} MB are in none of them and were written" if left else "")]


def _store(exported: Exported, component: Component, store: Path) -> Graph:
    model = store_graph(exported.graph, store)
    return Graph(component.name, model, model_size_bytes(model), operator_counts(model.path), dict(component.state))


@contextmanager
def source_context(target: Target, folder: Path, channel: Channel) -> Iterator[SourceContext]:
    """A context whose scratch folder goes away with it."""
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder, prefix="scratch-") as scratch:
        yield SourceContext(
            target,
            Path(scratch),
            logging.getLogger("optim.source"),
            lambda share, text: channel.event("progress", text=text),
        )
