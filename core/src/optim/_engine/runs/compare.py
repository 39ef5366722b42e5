"""Verify one model against another, and time several against each other, without a search."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from optim._engine.compare.metric_spec import MaxLoss, MetricSpec
from optim._engine.compare.place import Place
from optim._engine.gate.budget import Budget
from optim._engine.gate.drift import OutputComparison, worst_drift
from optim._engine.gate.task import TaskFigure
from optim._engine.jobs import prepare
from optim._engine.jobs.runner import Runner, thread_executor
from optim._engine.plugins.chosen_targets import ChosenTargets, choose_targets
from optim._engine.plugins.registry import Registry, require_target
from optim._engine.runs.session_file import MODEL_FILE, read_session_file
from optim._engine.search.effort import Effort
from optim._engine.search.measure.racing import Wanted, check_candidate, race_candidates
from optim._engine.search.settings import DEFAULT_TIMEOUT_S, RunSettings
from optim._engine.search.state import Candidate, LaneResult
from optim._engine.search.targets.entrants import none_runs
from optim._engine.search.workbench import Workbench
from optim._engine.sources.make import ExportedSource, make_graphs
from optim._engine.sources.naming import needs_export
from optim._engine.sources.pipeline import Choice
from optim._engine.store import Store
from optim.errors import ExitStatus, OptimError
from optim.jobs.owner import ending_workers
from optim.jobs.wire import to_wire
from optim.model import SessionConfig
from optim.source import SourceRequest
from optim.target import Target

if TYPE_CHECKING:
    from optim._engine.reports.answers import Benchmark, TimedModel, Verification

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Conditions:
    """Under which models are looked at without a search.

    Attributes:
        registry: of the plugins.
        store: the cache.
        say: told what is going on.
        data: where feeds come from; None: synthesized from the first model.
        target: where all run; of several the names with commas between.
        seed: of synthesized feeds, and of the order in a race.
        component: of a source with several.
    """

    registry: Registry
    store: Store
    say: Say
    data: str | None = None
    target: str = "cpu"
    seed: int = 0
    component: str = ""


def verify_models(
    reference: Path,
    other: Path,
    conditions: Conditions,
    *,
    max_drift: float | None = None,
    metric: MetricSpec | None = None,
    max_loss: MaxLoss | None = None,
    other_target: str = "",
) -> Verification:
    """Compare every output of ``other`` with ``reference`` on the same feeds.

    Args:
        reference: an ``.onnx`` file or a run folder.
        other: the same.
        conditions: under which both run.
        max_drift: largest relative L2 accepted; when None 0.05, or no bound where a loss is given.
        metric: task metric to measure beside drift.
        max_loss: how much worse it may be.
        other_target: where ``other`` runs; empty: where the reference does.

    Raises:
        OptimError: a model, the feeds or the target cannot be used.
    """
    elsewhere = require_target(conditions.registry, other_target) if other_target else None
    asked = RunSettings(Path(), max_drift=max_drift, metric=metric, max_loss=max_loss)
    asked.require_sound()
    with workbench_for(reference, conditions, asked) as (bench, _):
        candidate = other_model(bench, other)
        budget = Budget.of(asked, bench.prepared.tolerance)
        if elsewhere is not None:
            bench = bench.on(elsewhere, {})
        result = check_candidate(bench, candidate) if elsewhere else _compared(bench, candidate)
        if result.ready is None:
            raise OptimError(
                "other-failed",
                f"{other} does not run on the same feeds",
                result.failure,
                "optim inspect shows its inputs",
            )
        return _verification(bench, budget, result.ready.comparisons, result.ready.task)


def _verification(
    bench: Workbench, budget: Budget, comparisons: Sequence[OutputComparison], task: TaskFigure | None
) -> Verification:
    from optim._engine.reports.answers import ComparedFeeds, ComparedTask, Verification
    from optim._engine.reports.schema import DriftReport, OutputReport

    objection = budget.objection(comparisons, lossy=True, task=task)
    drift, prepared = worst_drift(comparisons), bench.prepared
    figures = prepared.task and task and ComparedTask(metric=prepared.task.metric.text, **to_wire(task))
    return Verification(
        within=not objection,
        reason=objection,
        tolerance=prepared.tolerance,
        limit=budget.limit(lossy=True),
        lossless=drift.relative_l2 <= prepared.tolerance,
        drift=DriftReport.model_validate(to_wire(drift)),
        outputs=tuple(OutputReport.model_validate(to_wire(item)) for item in comparisons),
        feeds=ComparedFeeds(origin=prepared.origin, samples=prepared.available, compared=len(prepared.compared)),
        task=figures or None,
    )


def _compared(bench: Workbench, candidate: Candidate) -> LaneResult:
    """The candidate's outputs on the reference's feeds; the reference is opened again only where both are timed."""
    if not bench.target.timed:
        return check_candidate(bench, candidate)
    effort = Effort(0.0, least_rounds=1, most_rounds=1, open_timeout_s=bench.settings.timeout_s, fresh=False)
    wanted = Wanted("verify", bench.prepared.compared, measure_task=True)
    return race_candidates(bench, [candidate], effort, wanted)[1][0]


def bench_models(
    models: Sequence[Path], conditions: Conditions, *, seconds: float = 20.0, beside: Sequence[str] = ()
) -> Benchmark:
    """Time models in lock-step, each in a process of its own.

    Args:
        models: ``.onnx`` files, run folders, or sources, which are exported; ratios are to the first.
        conditions: under which all run; of one model on several targets too.
        seconds: of racing, at most.
        beside: targets that run the source of the first model itself, e.g. ``torch-eager``.

    Raises:
        OptimError[not-timed]: time means nothing on the target.
        OptimError[conflicting-request]: several models on several targets.
        OptimError[not-a-source]: ``beside`` is given, and the first model was not exported from anything.
        OptimError: a model or the feeds cannot be used.
    """
    registry, target, component = conditions.registry, conditions.target, conditions.component
    chosen = choose_targets(registry, target)
    if len(chosen.targets) > 1 or (chosen.absent and not chosen.auto):
        _require_one_model(models, beside, target)
        return _bench_targets(models[0], conditions, chosen, seconds)
    target = chosen.targets[0].name
    conditions = replace(conditions, target=target)
    if not chosen.targets[0].timed:
        raise OptimError(
            "not-timed",
            f"nothing can be timed on target {target}",
            registry.target(target).remark,
            "optim targets; on a device the same target is timed",
            status=ExitStatus.USAGE,
        )
    with workbench_for(models[0], conditions) as (bench, first):
        candidates = [other_model(bench, path, component) for path in models[1:]]
        bench.original = first
        lanes = [_source_place(bench, registry, name, models[0], component) for name in beside]
        bench.say(f"timing {len(models) + len(lanes)} model{'s' if len(models) + len(lanes) > 1 else ''}")
        effort = Effort(seconds, least_rounds=10, most_rounds=40, width=0.01, drop=False)
        base, results = race_candidates(bench, candidates, effort, Wanted("bench", places=tuple(lanes)))
        if base.ready is None:
            raise OptimError(
                "bench-failed", f"{models[0]} does not run", base.failure, "optim inspect shows its inputs"
            )
        sizes = (first.size_bytes, *(candidate.size_bytes for candidate in candidates), *[0] * len(lanes))
        from optim._engine.reports.answers import Benchmark

        names = (*map(str, models), *beside)
        timed = [
            _timed_model(name, size, result, bench.prepared)
            for name, size, result in zip(names, sizes, (base, *results), strict=True)
        ]
        return Benchmark(target=target, feeds=bench.prepared.origin, models=tuple(timed))


def _require_one_model(models: Sequence[Path], beside: Sequence[str], target: str) -> None:
    if len(models) > 1 or beside:
        raise OptimError(
            "conflicting-request",
            f"--target {target} names several targets, and there is more than one model",
            "on several targets one model is timed, and on one target several models",
            "name one model, or one target",
            status=ExitStatus.USAGE,
        )


def _bench_targets(model: Path, conditions: Conditions, chosen: ChosenTargets, seconds: float) -> Benchmark:
    """Time one model on several targets in lock-step; ratios are to the first that runs it.

    Raises:
        OptimError[no-target-runs]: none of them does.
    """
    from optim._engine.reports.answers import Benchmark

    failed: dict[str, OptimError] = {}
    for number, target in enumerate(chosen.targets):
        try:
            with workbench_for(model, replace(conditions, target=target.name)) as (bench, original):
                bench.original = original
                timed = _timed_on(bench, chosen.targets[number:], seconds)
                feeds = bench.prepared.origin
        except OptimError as error:
            failed[target.name] = error
            continue
        reasons = {name: f"{error.what}: {error.cause}" for name, error in failed.items()}
        reasons |= {one.name: one.reason for one in chosen.absent if not chosen.auto}
        rows = [_not_timed(str(model), name, reason) for name, reason in reasons.items()]
        names = ",".join(one.name for one in chosen.targets)
        return Benchmark(target=names, feeds=feeds, models=(*timed, *rows))
    raise none_runs(failed, chosen)


def _timed_on(bench: Workbench, targets: Sequence[Target], seconds: float) -> list[TimedModel]:
    """The original of a workbench on its own target, which is the first, and on others."""
    bench.say(f"timing the model on {len(targets)} targets")
    effort = Effort(seconds, least_rounds=10, most_rounds=40, width=0.01, drop=False)
    places = tuple(map(bench.place_of, targets[1:]))
    base, others = race_candidates(bench, [], effort, Wanted("bench", places=places))
    name, size = str(bench.settings.source), bench.original.size_bytes
    return [
        _timed_model(name, size, result, bench.prepared).model_copy(update={"target": target.name})
        for target, result in zip(targets, (base, *others), strict=True)
    ]


def _not_timed(model: str, target: str, reason: str) -> TimedModel:
    from optim._engine.reports.answers import TimedModel

    return TimedModel(
        model=model,
        target=target,
        error=reason,
        latency_ms=None,
        size_bytes=None,
        peak_memory_bytes=None,
        latency_ratio=None,
        latency_ratio_ci=None,
        rounds=0,
        shapes=(),
    )


def _timed_model(name: str, size_bytes: int, result: LaneResult, prepared: prepare.Answer) -> TimedModel:
    from optim._engine.reports.answers import TimedModel, TimedShape

    ratio, ready = result.ratio, result.ready
    return TimedModel(
        model=name,
        error=result.failure or None,
        latency_ms=result.latency_ms or None,
        size_bytes=size_bytes or None,
        peak_memory_bytes=ready.peak_memory_bytes if ready else None,
        latency_ratio=ratio.value if ratio else None,
        latency_ratio_ci=(ratio.low, ratio.high) if ratio else None,
        rounds=ratio.rounds if ratio else 0,
        shapes=tuple(
            TimedShape(shape=shape, latency_ms=ms, ratio=each.value, ci=(each.low, each.high))
            for shape, ms, each in zip(prepared.shapes, result.sample_ms, result.sample_ratio, strict=False)
        ),
    )


def _source_place(bench: Workbench, registry: Registry, name: str, model: Path, component: str) -> Place:
    """Where the source of the first model itself is run: its backend is told which source that is."""
    if bench.settings.export is None:
        raise OptimError(
            "not-a-source",
            f"{name} cannot run {model}",
            "it is an ONNX model, and no module of torch",
            "name the Hugging Face folder or the factory first",
            status=ExitStatus.USAGE,
        )
    target = require_target(registry, name, beside=True)
    told = {"source": json.dumps(to_wire(bench.settings.export)), "component": component}
    plugin = registry.offered("backend")[target.backend].plugin.name
    return Place(replace(target.plain, provider_options={**target.provider_options, **told}), plugin)


@contextmanager
def workbench_for(
    model: Path, conditions: Conditions, asked: RunSettings | None = None
) -> Iterator[tuple[Workbench, Candidate]]:
    """A workbench prepared on the first model's feeds, and that model with its own settings.

    The metric and its budget are those of ``asked``.
    """
    registry, store, say = conditions.registry, conditions.store, conditions.say
    device = require_target(registry, conditions.target)
    with store.in_use(), ending_workers(), thread_executor() as executor:
        exported = _exported(model, device, registry, store, say)
        path, session = (model, SessionConfig()) if exported else resolve(model)
        settings = replace(
            asked or RunSettings(path),
            source=path,
            target=conditions.target,
            data=conditions.data,
            seed=conditions.seed,
            fresh=True,
            export=exported.request if exported else None,
            component=_component(exported, conditions.component) if exported else "",
        )
        bench = Workbench(settings, registry, store, executor, say, exported)
        found = bench.ingest()
        bench.prepare(found.model)
        yield bench, replace(bench.original, model=found.model.with_session(session))


def resolve(path: Path) -> tuple[Path, SessionConfig]:
    """The graph and the settings of an ``.onnx`` file (the runtime's defaults) or of a run folder."""
    if path.is_dir():
        return path / MODEL_FILE, read_session_file(path).config
    return path, SessionConfig()


def _exported(model: Path, target: Target, registry: Registry, store: Store, say: Say) -> ExportedSource | None:
    """The graphs of a source; None where the model is an ONNX model."""
    if not needs_export(str(model)):
        return None
    request, runner = SourceRequest(str(model)), Runner(store, say)
    return make_graphs(request, target, registry, Choice(), runner, timeout_s=DEFAULT_TIMEOUT_S)


def _component(exported: ExportedSource, name: str) -> str:
    """A component of a source.

    Raises:
        OptimError[which-component]: it has several, and the user named none of them.
    """
    known = [graph.component for graph in exported.graphs]
    if name in known or (not name and len(known) == 1):
        return name or known[0]
    raise OptimError(
        "which-component",
        f"{exported.request.spec} has several components",
        f"they are {', '.join(known)}",
        f"--component {known[-1]}",
        status=ExitStatus.USAGE,
    )


def other_model(bench: Workbench, path: Path, component: str = "") -> Candidate:
    """A further model, brought into the store, with its own settings; a source is exported."""
    exported = _exported(path, bench.target, bench.registry, bench.store, bench.say)
    if exported is not None:
        graph_of = exported.graph(_component(exported, component))
        return Candidate(graph_of.model, graph_of.size_bytes)
    graph, session = resolve(path)
    found = bench.ingest_file(graph)
    return Candidate(found.model.with_session(session), found.size_bytes)
