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

from optim.engine.export import (
    ComponentFile,
    ExportConditions,
    ExportedGraph,
    ExportFile,
    ExportReport,
    ExportStepReport,
    KeptFiles,
    KnownExport,
    Runner,
    cache_key,
    core_digest,
    drift_report,
    export_file,
    is_whole,
    source_digest,
    version_keys,
)
from optim.errors import OptimError
from optim.jobs import to_wire
from optim.passes import Stage
from optim.source import SourceRequest
from optim_plugins.export import check_job, export_job, reference_job
from optim_plugins.export.record import keep_evidence
from optim_plugins.export.verify import Verified

_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack", ".gguf", ".npz")
_TEXTS = (".json", ".py", ".txt", ".model", ".tiktoken", ".jinja", ".jinja2", ".yaml", ".yml", ".toml")
_FINGERPRINTED = (*_WEIGHTS, *_TEXTS)
"""What a model is loaded from; graphs are not among them: an export may be written beside its source."""


@dataclass(frozen=True, slots=True)
class MadeExport:
    """What was made of a source.

    Attributes:
        graphs: of its components, in order.
        steps: every pass and exporter.
        notes: for the report.
        peak_memory_bytes: of the process that exported it.
    """

    graphs: tuple[ExportedGraph, ...]
    steps: tuple[ExportStepReport, ...]
    notes: tuple[str, ...]
    peak_memory_bytes: int
    seconds: float

    @property
    def content(self) -> ExportFile:
        """The ``export.json`` of a folder with these graphs, each in a file of its name."""
        return self.graphs[0].known.content


def make_graphs(request: SourceRequest, conditions: ExportConditions) -> MadeExport:
    """Export a source and verify what came of it; the same folder again is served from the cache.

    Args:
        request: what the user asked for.
        conditions: under which it is exported.

    Raises:
        OptimError: the source cannot be loaded, exported, or its graphs are not what it computes.
    """
    runner = Runner(conditions.store, conditions.say, fresh=conditions.fresh)
    key = _key(request, conditions)
    made = runner.known(key, MadeExport, holds=_is_there)
    if made is not None:
        os.utime(made.graphs[0].evidence)
        runner.say(f"{request.spec} was exported before (--no-cache exports it again)")
        return made
    started = time.monotonic()
    store, target, choice = conditions.store, conditions.target.plain, conditions.choice
    with TemporaryDirectory(dir=store.root, prefix="scratch-") as scratch:
        evidence = Path(scratch) / "evidence"
        recorded = runner.need(
            reference_job.JOB,
            export_job.Request(request, target, choice, evidence),
            timeout_s=conditions.timeout_s,
            reference="source-load-failed",
            doing=f"load {request.spec}",
        )
        exporting = Runner(store, runner.say)  # a count of its own, for its peak
        exported = exporting.need(
            export_job.JOB,
            export_job.Request(request, target, choice, store.models),
            timeout_s=conditions.timeout_s,
            reference="source-export-failed",
            doing=f"export {request.spec}",
        )
        models = {graph.component: graph.model for graph in exported.graphs}
        try:
            checked = runner.need(
                check_job.JOB,
                check_job.Request(models, evidence, target, exported.lossy, request.max_drift),
                timeout_s=conditions.timeout_s,
                reference="source-verify-failed",
                doing=f"verify {request.spec}",
            )
        except OptimError as error:
            raise _with_failures(error, exported.steps) from error
        kept = keep_evidence(store, evidence)
    verified = {one.component: one for one in checked.verified}
    parts = {
        one.component: ComponentFile(f"{one.component}.onnx", one.state, verified[one.component].drift.relative_error)
        for one in exported.graphs
    }
    content = export_file(request.spec, recorded.facts, parts)
    files = KeptFiles(request.folder.resolve(), links=True) if request.folder is not None else None
    graphs = [
        ExportedGraph(
            one.model,
            one.size_bytes,
            one.operators,
            KnownExport(content, one.component, files),
            _report(request.spec, verified[one.component], exported).model_dump(mode="json"),
            kept,
        )
        for one in exported.graphs
    ]
    notes = (*exported.notes, *(note for one in checked.verified for note in one.notes))
    seconds = time.monotonic() - started
    made = MadeExport(tuple(graphs), exported.steps, notes, exporting.peak_memory_bytes, seconds)
    runner.keep(key, made)
    return made


def _report(spec: str, verified: Verified, exported: export_job.Answer) -> ExportReport:
    """How a component was exported, for the report of a run."""
    return ExportReport(
        source=spec,
        component=verified.component,
        drift=drift_report(verified.drift),
        trials=verified.trials,
        skipped=verified.skipped,
        tokens=verified.tokens,
        steps=tuple(step for step in exported.steps if step.component in ("", verified.component)),
        notes=(*exported.notes, *verified.notes),
    )


def _is_there(made: MadeExport) -> bool:
    """Returns whether the cache still has all of it."""
    return made.graphs[0].evidence.is_dir() and all(is_whole(graph.model.path) for graph in made.graphs)


def _with_failures(error: OptimError, steps: Sequence[ExportStepReport]) -> OptimError:
    """Returns what went wrong, and which exporters had failed before: the one that was taken may be the worse one."""
    failed = [f"{step.name} had failed before: {step.reason}" for step in steps if step.status == "failed"]
    return replace(error, cause="\n".join([error.cause, *failed])) if failed else error


def _key(request: SourceRequest, conditions: ExportConditions) -> str:
    """Everything an export depends on; what a function returns cannot be known, so it is never found again."""
    offers = [
        offer
        for offer in conditions.registry.offers(conditions.target)
        if offer.stage in (Stage.PRE_EXPORT, Stage.EXPORT)
    ]
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
        to_wire(conditions.choice),
        plugins,
        installed,
        conditions.target.name,
        core_digest(),
        source_digest(__name__),
    )
