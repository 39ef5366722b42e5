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
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from optim.engine.export import (
    ExportConditions,
    ExportedSource,
    Runner,
    SourceStep,
    cache_key,
    core_digest,
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

_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack", ".gguf", ".npz")
_TEXTS = (".json", ".py", ".txt", ".model", ".tiktoken", ".jinja", ".jinja2", ".yaml", ".yml", ".toml")
_FINGERPRINTED = (*_WEIGHTS, *_TEXTS)
"""What a model is loaded from; graphs are not among them: an export may be written beside its source."""


def make_graphs(request: SourceRequest, conditions: ExportConditions) -> ExportedSource:
    """Export a source and verify what came of it; the same folder again is served from the cache.

    Args:
        request: what the user asked for.
        conditions: under which it is exported.

    Raises:
        OptimError: the source cannot be loaded, exported, or its graphs are not what it computes.
    """
    runner = Runner(conditions.store, conditions.say, fresh=conditions.fresh)
    key = _key(request, conditions)
    made = runner.known(key, ExportedSource, holds=_is_there)
    if made is not None:
        os.utime(made.evidence)
        runner.say(f"{request.spec} was exported before (--no-cache exports it again)")
        return made
    started = time.monotonic()
    store, target, choice = conditions.store, conditions.target.plain, conditions.choice
    with TemporaryDirectory(dir=store.root, prefix="scratch-") as scratch:
        evidence = Path(scratch) / "evidence"
        recording = reference_job.Request(request, target, choice, evidence)
        reference = runner.need(
            reference_job.JOB,
            recording,
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
