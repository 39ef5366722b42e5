"""A source as verified graphs in the store, and the plugin that makes them of it.

Core knows what an export is, and compares the result of a run with the evidence in it. The pipeline that loads a
source, exports it and verifies the graphs is a plugin's, found by the hook ``optim_pipelines``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from optim._engine.gate.drift import Drift, OutputComparison
from optim._engine.plugins.plugin import EnginePart
from optim._engine.plugins.registry import Registry
from optim._engine.sources.export_file import ComponentFile, ExportFile, export_file
from optim._engine.store import Store
from optim.model import Model
from optim.passes import Stage
from optim.source import SourceRequest
from optim.target import Target

if TYPE_CHECKING:
    from optim._engine.reports.answers import ExportedFolder


@dataclass(frozen=True, slots=True)
class Choice:
    """What the user said of passes before there is a model.

    Attributes:
        named: options by the name of each pass that must run; None: its defaults.
        without: passes left out.
    """

    named: Mapping[str, Mapping[str, Any] | None] = field(default_factory=dict)
    without: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceStep:
    """One pass over the source, or one exporter on one component, for the report."""

    name: str
    plugin: str
    stage: Stage
    status: Literal["kept", "dropped", "not-applicable", "failed", "skipped"]
    reason: str = ""
    component: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    printed: tuple[str, ...] = ()


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
class Verified:
    """How far a graph is from its source.

    Attributes:
        trials: names of those it was compared on.
        skipped: those that the source itself refuses, with the reason.
        drift: of the worst output over all steps of all trials.
        tokens: greedy tokens compared one by one; 0 where the source generates nothing.
    """

    component: str
    trials: tuple[str, ...]
    skipped: tuple[str, ...]
    drift: Drift
    comparisons: tuple[OutputComparison, ...]
    tokens: int = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ExportedSource:
    """A source as graphs in the store, each verified against it.

    Attributes:
        steps: every pass and exporter, for the report.
        verified: how far each graph is from the source.
        facts: what is known of the source: task, architecture, token ids.
        peak_memory_bytes: of the process that exported it.
        evidence: folder in the store with what the source computed on every trial.
    """

    request: SourceRequest
    graphs: tuple[Graph, ...]
    steps: tuple[SourceStep, ...]
    verified: tuple[Verified, ...]
    facts: dict[str, Any]
    notes: tuple[str, ...] = ()
    peak_memory_bytes: int = 0
    seconds: float = 0.0
    evidence: Path = Path()

    def graph(self, component: str) -> Graph:
        """The graph of a component."""
        return next(graph for graph in self.graphs if graph.component == component)

    @property
    def content(self) -> ExportFile:
        """The ``export.json`` of a folder with these graphs, each in a file of its name."""
        drift = {one.component: one.drift.relative_error for one in self.verified}
        parts = {
            one.component: ComponentFile(f"{one.component}.onnx", one.state, drift.get(one.component, 0.0))
            for one in self.graphs
        }
        return export_file(self.request.spec, self.facts, parts)


@dataclass(frozen=True, slots=True)
class ExportConditions:
    """Under which a source is exported.

    Attributes:
        store: takes the graphs and the evidence.
        target: where the graphs will run.
        timeout_s: for each job.
        fresh: take nothing from the cache.
    """

    registry: Registry
    store: Store
    say: Callable[[str], None]
    target: Target
    timeout_s: float
    choice: Choice = Choice()
    fresh: bool = False


class ExportPipeline(Protocol):
    """Turns sources into graphs. A class of it is made without arguments."""

    def export(self, request: SourceRequest, conditions: ExportConditions) -> ExportedSource:
        """Export a source into the store, and verify the graphs.

        Raises:
            OptimError: the source cannot be loaded or exported, or its graphs are not what it computes.
        """

    def write(self, request: SourceRequest, output: Path, conditions: ExportConditions) -> ExportedFolder:
        """The same, and write graphs, ``export.json`` and the files of a tokenizer into a folder of the user.

        Raises:
            OptimError: source-is-model, source-missing, source-without-config: there is nothing to export.
            OptimError[bad-budget]: the largest drift is no positive number.
            OptimError: as :meth:`export`; or the folder cannot be used.
        """


_PIPELINE: EnginePart[ExportPipeline] = EnginePart("pipeline", "export")


def find_pipeline(registry: Registry, spec: str) -> ExportPipeline:
    """Finds the pipeline of the installed plugins; raises as :meth:`Registry.part`."""
    return registry.part(_PIPELINE, f"{spec} cannot be exported to ONNX")


def export(request: SourceRequest, conditions: ExportConditions) -> ExportedSource:
    """A source as graphs in the store, by the installed pipeline.

    Raises:
        OptimError: there is none; else as :meth:`ExportPipeline.export`.
    """
    return find_pipeline(conditions.registry, request.spec).export(request, conditions)
