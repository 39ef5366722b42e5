"""The contract with plugin ``export``, which turns a source into graphs and compares models with the source.

Core knows where a graph came from (:class:`ExportedGraph`), and asks a job of the plugin how far a result is from what
the source itself computed (:class:`SourceQuestion`, :class:`SourceDrift`). The hook ``optim_pipelines`` names the
pipeline.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from optim._engine.compare.place import Place
from optim._engine.gate.drift import NO_DRIFT, Drift
from optim._engine.jobs.job import Job
from optim._engine.plugins.plugin import EnginePart
from optim._engine.plugins.registry import Registry
from optim._engine.sources.export_file import KnownExport
from optim._engine.store import Store
from optim.model import Model
from optim.passes import Interface
from optim.source import SourceRequest
from optim.target import Target

if TYPE_CHECKING:
    from optim._engine.reports.answers import ExportedFolder

ROUNDING = 1e-4
"""Largest drift of an output of float32 that rounding explains between two libraries."""


@dataclass(frozen=True, slots=True)
class ExportedGraph:
    """A component of a source as a graph in the store, compared with the source.

    Attributes:
        size_bytes: on disk once delivered.
        operators: nodes by operator.
        known: what the ``export.json`` of a folder with all graphs of the source says, and the files of the source.
        report: how it was exported, as ``report.json`` has it, in JSON values.
        evidence: folder in the store with what the source computed on every trial.
    """

    model: Model
    size_bytes: int
    operators: dict[str, int]
    known: KnownExport
    report: Mapping[str, Any]
    evidence: Path


@dataclass(frozen=True, slots=True)
class SourceQuestion:
    """A result, to be compared with what its source computed.

    Attributes:
        model: with its session settings.
        original: the graph that was exported.
        interfaces: of the steps that made the one from the other.
    """

    model: Model
    place: Place
    original: Model
    interfaces: tuple[Interface, ...]
    evidence: Path
    component: str


@dataclass(frozen=True, slots=True)
class SourceDrift:
    """How far a result is from the source.

    Attributes:
        drift: of the worst output over all steps of all trials; without a trial it says nothing.
        trials: names of those that it was compared on.
        skipped: those that it does not take, with the reason.
        samples: runs compared.
        output: the worst one.
        place: the trial and the step that it is worst on.
        problem: what makes it incomparable or infinitely far, or empty.
        limit: what it was held to; infinite where nothing bounds the drift.
        note: what a reader must know of it, or empty.
    """

    drift: Drift = NO_DRIFT
    trials: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    samples: int = 0
    output: str = ""
    place: str = ""
    problem: str = ""
    limit: float = math.inf
    note: str = ""


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
    """Turns sources into graphs, and compares models with sources. A class of it is made without arguments.

    Attributes:
        witness: the job that compares a result with its source.
    """

    witness: Job[SourceQuestion, SourceDrift]

    def foretold(self, spec: str) -> Mapping[str, Any]:
        """What a source says of itself before it is exported, by the names in ``export.json``: its kind and context.

        Raises:
            OptimError: it cannot be exported: it is weights alone, or the name of a model on a hub.
        """

    def export(self, request: SourceRequest, conditions: ExportConditions) -> Sequence[ExportedGraph]:
        """Export each component of a source into the store, and compare it with the source.

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
