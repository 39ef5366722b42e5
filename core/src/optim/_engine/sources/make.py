"""From a source to verified graphs in the store: three jobs, each in a process of its own.

- reference loads the source as it is, and records what it computes on trials;
- export loads it again, runs the passes before export, and writes graphs into the store;
- check holds the graphs against what was recorded.
"""

from __future__ import annotations

import importlib.metadata
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from optim._engine.jobs.runner import Runner
from optim._engine.plugins.registry import Registry
from optim._engine.plugins.versions import core_digest, version_keys
from optim._engine.sources import check_job, export_job, reference_job
from optim._engine.sources.evidence import keep_evidence
from optim._engine.sources.export_job import Graph
from optim._engine.sources.pipeline import Choice, SourceStep
from optim._engine.sources.verify import Verified
from optim._engine.store import cache_key
from optim.errors import OptimError
from optim.jobs.wire import to_wire
from optim.model import Model
from optim.onnx.files import is_whole
from optim.passes import Stage
from optim.source import SourceRequest
from optim.target import Target

_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack", ".gguf", ".npz")
_TEXTS = (".json", ".py", ".txt", ".model", ".tiktoken", ".jinja", ".jinja2", ".yaml", ".yml", ".toml")
_FINGERPRINTED = (*_WEIGHTS, *_TEXTS)
"""What a model is loaded from; graphs are not among them: an export may be written beside its source."""


@dataclass(frozen=True, slots=True)
class ExportedSource:
    """A source as graphs in the store, each verified against it.

    Attributes:
        request: what the user asked for.
        graphs: by component, in order.
        steps: every pass and exporter, for the report.
        verified: how far each graph is from the source.
        facts: what is known of the source: task, architecture, token ids.
        notes: for the report.
        peak_memory_bytes: of the process that exported it.
        seconds: spent.
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


def make_graphs(
    request: SourceRequest,
    target: Target,
    registry: Registry,
    choice: Choice,
    runner: Runner,
    *,
    timeout_s: float,
    beside: Model | None = None,
) -> ExportedSource:
    """Export a source and verify what came of it; the same folder again is served from the cache.

    Args:
        request: what the user asked for.
        target: where the graphs will run.
        registry: of the plugins.
        choice: what the user said of passes.
        runner: of its three jobs.
        timeout_s: for each of the three jobs.
        beside: a model of the store, exported from the same source, whose files hold the weights already.

    Raises:
        OptimError: the source cannot be loaded, exported, or its graphs are not what it computes.
    """
    key = _key(request, target, registry, choice)
    made = runner.known(key, ExportedSource, holds=_is_there)
    if made is not None:
        os.utime(made.evidence)
        runner.say(f"{request.spec} was exported before (--no-cache exports it again)")
        return made
    started = time.monotonic()
    store, target = runner.store, target.plain
    with TemporaryDirectory(dir=store.root, prefix="scratch-") as scratch:
        evidence = Path(scratch) / "evidence"
        recording = reference_job.Request(request, target, choice, evidence)
        reference = runner.need(
            reference_job.JOB,
            recording,
            timeout_s=timeout_s,
            reference="source-load-failed",
            doing=f"load {request.spec}",
        )
        exporting = Runner(store, runner.say)  # a count of its own, for its peak
        exported = exporting.need(
            export_job.JOB,
            export_job.Request(request, target, choice, store.models, beside),
            timeout_s=timeout_s,
            reference="source-export-failed",
            doing=f"export {request.spec}",
        )
        models = {graph.component: graph.model for graph in exported.graphs}
        try:
            checked = runner.need(
                check_job.JOB,
                check_job.Request(models, evidence, target, exported.lossy),
                timeout_s=timeout_s,
                reference="source-verify-failed",
                doing=f"verify {request.spec}",
            )
        except OptimError as error:
            raise _with_failures(error, exported.steps) from error
        kept = keep_evidence(store, evidence)
    made = ExportedSource(
        request,
        exported.graphs,
        exported.steps,
        checked.verified,
        dict(reference.evidence.facts),
        exported.notes,
        exporting.peak_memory_bytes,
        time.monotonic() - started,
        kept,
    )
    runner.keep(key, made)
    return made


def _is_there(made: ExportedSource) -> bool:
    """Returns whether the cache still has all of it."""
    return made.evidence.is_dir() and all(is_whole(graph.model.path) for graph in made.graphs)


def _with_failures(error: OptimError, steps: Sequence[SourceStep]) -> OptimError:
    """Returns what went wrong, and which exporters had failed before: the one that was taken may be the worse one."""
    failed = [f"{step.name} had failed before: {step.reason}" for step in steps if step.status == "failed"]
    return replace(error, cause="\n".join([error.cause, *failed])) if failed else error


def _key(request: SourceRequest, target: Target, registry: Registry, choice: Choice) -> str:
    """Everything an export depends on; what a function returns cannot be known, so it is never found again."""
    offers = [offer for offer in registry.offers(target) if offer.stage in (Stage.PRE_EXPORT, Stage.EXPORT)]
    plugins = version_keys(offer.plugin for offer in offers)
    installed = sorted(
        f"{distribution.name} {distribution.version}" for distribution in importlib.metadata.distributions()
    )
    folder = request.folder
    content: object = time.time_ns()
    if folder is not None:
        files = sorted(file for file in folder.rglob("*") if file.suffix in _FINGERPRINTED and file.is_file())
        stats = [(str(file.relative_to(folder)), file.stat()) for file in files]
        content = [str(folder.resolve()), [(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats]]
    return cache_key(
        "export",
        to_wire(replace(request, spec="")),
        content,
        to_wire(choice),
        plugins,
        installed,
        target.name,
        core_digest(),
    )
