"""A whole run: source to verdict. Writes nothing but the cache."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from optim._engine.backends.held import needs_device_check
from optim._engine.compare.comparison import variant_models
from optim._engine.jobs import ingest
from optim._engine.jobs.job import STARTING_S
from optim._engine.jobs.runner import thread_executor
from optim._engine.plugins.chosen_targets import ChosenTargets, choose_targets
from optim._engine.plugins.plugin import LoadedPlugin, State
from optim._engine.plugins.registry import Registry, require_target
from optim._engine.plugins.versions import core_digest, version_keys, version_of
from optim._engine.reports.outcome import Outcome, RunStatus
from optim._engine.runs.found_goal import find_goal_of_graph
from optim._engine.search.restore import damaged_files
from optim._engine.search.settings import AUTO, RunSettings
from optim._engine.search.state import Candidate
from optim._engine.search.targets.entrants import Plans, TargetOutcome, none_runs, with_absent
from optim._engine.search.time_estimate import Load, PassCosts, estimate_s, in_words, of_several
from optim._engine.search.workbench import Workbench
from optim._engine.sources.exported import ExportedGraph
from optim._engine.standing import let_stand
from optim._engine.store import Store, cache_key, names_in_messages
from optim._engine.trace import Recorder
from optim.errors import OptimError
from optim.goal import Basis
from optim.jobs.owner import ending_workers
from optim.jobs.wire import to_wire
from optim.onnx.files import is_whole
from optim.onnx.operators import operator_counts
from optim.providers.memory import mapped_config
from optim.target import Target
from optim.workplace import Workplace

_PACKAGES = ("optim-core", "onnx", "onnx-ir", "numpy", "pydantic")

_MAPPED = (
    "the original needs much of the memory, so optim runs and times it without repacked weights "
    "(session.disable_prepacking); with memory for a copy of the weights it would be faster"
)


def execute(
    settings: RunSettings,
    registry: Registry,
    store: Store,
    say: Callable[[str], None],
    exported: ExportedGraph | None = None,
    elsewhere: Workplace | None = None,
    trace: Recorder | None = None,
) -> Outcome:
    """Run the search, or repeat a chain, and judge. The same request again is served from the cache.

    Raises:
        OptimError: the source, the feeds, the target or the request is unusable; nothing has been written.
    """
    started = time.monotonic()
    chosen = choose_targets(registry, settings.target)
    if settings.baseline:  # a lock of several targets names it beside the one that it was for
        chosen = replace(chosen, baseline=require_target(registry, settings.baseline))
    plans = Plans(settings, registry, chosen)
    if chosen.note:
        say(chosen.note)
    with (
        store.in_use(),
        ending_workers(),
        thread_executor(elsewhere.at_once if elsewhere else 0) as executor,
        elsewhere.working() if elsewhere else nullcontext(),  # left first: the executor's threads wait for its jobs
    ):
        there = set(store.models.iterdir())
        failed = dict(plans.refused)

        def bench_on(target: Target) -> Workbench:
            on_it = replace(settings, target=target.name)
            bench = Workbench(on_it, registry, store, executor, say, exported, elsewhere)
            if trace is not None:
                bench.runner.trace = trace
                trace.goes_by(bench.deadline)
            return bench

        bench, source = _prepared(bench_on, chosen, failed)
        if (inexact := bench.prepared.inexact) is not None:
            chosen = chosen.requiring(bench.target.name, inexact.pass_name)
        plans = Plans(bench.settings, registry, chosen)  # the goal may be that of the graph
        load = _load(bench, source)
        if settings.chain is None:
            _announce(bench, load, plans, say)
        key = _run_key(bench, chosen)
        latest = None if settings.fresh else store.read("runs", key, str)
        earlier = finished_run(store, latest) if latest is not None else None
        if earlier is not None:
            say("read from the cache: the same run was made before (--no-cache repeats it)")
            earlier.seconds, earlier.settings = time.monotonic() - started, bench.settings
            earlier.computed, earlier.from_cache = 0, earlier.computed + earlier.from_cache
            earlier.export, earlier.known = bench.exported.report if bench.exported else {}, bench.known
            return _noting(earlier, chosen, registry)
        outcome = _outcome(bench, source, chosen, plans, failed)
        PassCosts.known(store).learned(outcome.attempts, load).keep(store)
        proven = [point.candidate.model.path for point in outcome.points if point.proven]
        kept = {bench.original.model.path, *proven}
        if outcome.result:
            chain = outcome.result.candidate
            kept |= {chain.model.path, *(model.path for model in variant_models(chain.interfaces))}
        store.keep_only(bench.made | set(store.models.iterdir()) - there, kept)
        outcome.seconds = time.monotonic() - started
        if trace is not None:
            trace.finish(_for_trace(outcome))
        outcome.key = cache_key("finished run", to_wire(outcome))
        if outcome.status is not RunStatus.FAILED:  # a crash or a timeout may not come again
            store.write("runs", outcome.key, to_wire(outcome))  # points of an earlier run of the request stay its own
            store.write("runs", key, outcome.key)
    return _noting(outcome, chosen, registry)


def _for_trace(outcome: Outcome) -> dict[str, Any]:
    """What came of a run, for who replays it: the verdict, every point, and the rows."""
    return {
        "model": outcome.source.model.digest,
        "status": outcome.status,
        "reason": outcome.reason,
        "delivered": outcome.result and outcome.result.candidate.digest,
        "points": [
            {
                "digest": one.candidate.digest,
                "chain": [{"pass": step.pass_name, "options": step.options} for step in one.candidate.steps],
                "ratio": one.ratio,
                "drift": one.candidate.drift.relative_error,
                "size_bytes": one.candidate.size_bytes,
                "proven": one.proven,
                "within": one.within,
            }
            for one in outcome.points
        ],
        "rows": outcome.attempts,
        "seconds": outcome.seconds,
        "announced_s": outcome.announced_s,
        "versions": outcome.versions,
    }


def _noting(outcome: Outcome, chosen: ChosenTargets, registry: Registry) -> Outcome:
    """The same, and what the run itself does not depend on: what became of auto, and plugins that broke."""
    broken = [plugin for plugin in registry.plugins if plugin.state in (State.FAILED, State.INCOMPATIBLE)]
    lost = (f"plugin {one}; optim plugins show {one.plugin.name}" for one in registry.problems)
    outcome.notes = (*outcome.notes, *filter(None, [chosen.note]), *map(_about_broken, broken), *lost)
    return outcome


def _about_broken(plugin: LoadedPlugin) -> str:
    reason = plugin.reason.partition("\n")[0]
    about = f"plugin {plugin.info} is {plugin.state}; its passes were not tried"
    return f"{about}: {reason}; optim plugins show {plugin.name}"


def _prepared(
    bench_on: Callable[[Target], Workbench], chosen: ChosenTargets, failed: dict[str, OptimError]
) -> tuple[Workbench, ingest.Answer]:
    """The run, prepared on the baseline; where the original does not run there, on the next of the targets."""
    errors: dict[str, OptimError] = {}
    for name, target in {one.name: one for one in (chosen.baseline, *chosen.targets)}.items():
        bench = bench_on(target)
        source = bench.ingest()
        find_goal_of_graph(bench)
        within_s = bench.deadline.for_original if bench.settings.chain is None else None
        try:
            bench.check_options()
            bench.prepare(within_s)
        except OptimError as error:
            if not chosen.compete:
                raise
            errors[name] = error
            continue
        failed |= errors
        return bench, source
    raise none_runs(errors, chosen)


def _load(bench: Workbench, source: ingest.Answer) -> Load:
    prepared, nodes = bench.prepared, sum(source.operators.values())
    bench.deadline.note_size(source.size_bytes)
    if mapped_config(source.model.path, bench.target):
        bench.deadline.note(_MAPPED)
    return Load(source.size_bytes, nodes, len(prepared.compared), prepared.open_s, prepared.run_s)


def _announce(bench: Workbench, load: Load, plans: Plans, say: Callable[[str], None]) -> None:
    """Say how long the run is going to take, and have it keep to that."""
    time = bench.deadline
    time.try_s = load.candidate_s + load.lane_s
    if bench.settings.search_seconds == AUTO:
        costs = PassCosts.known(bench.store)
        each = [estimate_s(load, plan.names, costs, time.spent) for plan in plans.by_target.values()]
        time.announced_s = round(of_several(each))
        let_stand(say, f"about {in_words(time.announced_s)}: {load.text} (--search-seconds says otherwise)")
    bench.hold_to_time()


def _outcome(
    bench: Workbench, source: ingest.Answer, chosen: ChosenTargets, plans: Plans, failed: dict[str, OptimError]
) -> Outcome:
    """Search, or repeat a chain, judge, and gather what came of it."""
    # what a run from the cache needs none of
    from optim._engine.feeds.traces import unread_rows
    from optim._engine.runs.judge import judge_lock, judge_search
    from optim._engine.runs.lab.after_run import look_after
    from optim._engine.search.targets.contest import Contest, enter

    started = bench.turns.now()
    entrants = enter(bench, chosen, plans, failed)
    rows: list[TargetOutcome] = []
    if bench.settings.chain is not None:
        won = entrants[0].bench
        verdict = judge_lock(won)
    else:
        contest = Contest(bench, entrants, competes=chosen.compete)
        verdict = judge_search(contest)
        won, rows = contest.bench_of(verdict.delivered), contest.rows(verdict.delivered)
    search_s, result, goal = bench.turns.now() - started, verdict.result, bench.goal
    if result:
        bench.deadline.note(_about_device(won, result.candidate))
        samples = (bench.reference.feed_set().sample(number) for number in bench.prepared.compared)
        for note in unread_rows(source.model.path, result.candidate.model.path, samples):
            bench.deadline.note(note)
    plugins = {p.info.package: p.info.version for p in bench.registry.plugins if p.info.package}
    own = {name: version_of(name) for name in _PACKAGES}
    searches, verdict.searches = verdict.searches, ()
    found = look_after(bench, won, verdict, searches)
    return Outcome(
        **vars(verdict),
        settings=bench.settings,
        goal_basis=goal.basis,
        goal_words=goal.words if goal.basis is Basis.CLOCK else None,
        goal_takes=goal.takes,
        target=won.target,
        source=source,
        prepared=bench.prepared,
        operators=operator_counts(result.candidate.model.path) if result else {},
        versions={**own, **plugins, **bench.prepared.versions, **won.prepared.versions},
        requirements=won.prepared.requirements,
        packages={plugin.info.name: (plugin.info.package, plugin.info.version) for plugin in bench.registry.plugins},
        search_s=search_s,
        announced_s=None if math.isinf(bench.deadline.announced_s) else bench.deadline.announced_s,
        notes=(*bench.deadline.notes, *bench.turns.notes),
        computed=bench.runner.count,
        from_cache=bench.runner.from_cache,
        export=bench.exported.report if bench.exported else {},
        known=bench.known,
        operator_ms=tuple(map(dict, found.operator_ms)),
        sections=found.sections,
        baseline=bench.target.name if chosen.compete else "",
        targets=tuple(with_absent(rows, chosen, failed)) if chosen.compete else (),
        machine=bench.elsewhere.report if bench.elsewhere is not None else {},
    )


def _about_device(won: Workbench, candidate: Candidate) -> str:
    """Why nobody else computed what is delivered; empty if it was computed, or is the original, which was before."""
    if candidate.is_original or candidate.recast is not None:  # a recast model is held to an implementation of its own
        return ""
    if not needs_device_check(won.registry.backend(won.target.backend), won.target):
        return ""
    from optim._engine.jobs import check_device

    time = won.deadline
    within_s = min(time.for_original / 2, max(0.0, time.left))
    compared, without = won.comparison(candidate), tuple(won.settings.without)
    drift = candidate.drift.relative_error
    request = check_device.Request(
        compared.place, without, compared.reference, within_s, candidate.model, compared.interfaces, drift
    )
    timeout_s = max(STARTING_S, min(won.settings.timeout_s, time.left))
    reason = check_device.checked(request, won.runner, timeout_s).reason
    for stored, name in names_in_messages(candidate.model.path, Path("model.onnx")).items():
        reason = reason.replace(stored, name)
    return f"no independent runtime checked what {won.target.name} computes of the result: {reason}" if reason else ""


def _run_key(bench: Workbench, chosen: ChosenTargets) -> str:
    """Everything a run depends on: what was asked, the model, the feeds, the code and the machine."""
    beside = {"source", "data", "fresh", "export", "component", "cluster", "store_url", "trace"}
    plugins = version_keys(plugin.info for plugin in bench.registry.plugins)
    depends_on = {
        "asked": {name: value for name, value in to_wire(bench.settings).items() if name not in beside},
        "target": to_wire(bench.target),
        "model": bench.original.digest,
        "feeds": bench.prepared.digest,
        "versions": [bench.prepared.versions, plugins, core_digest()],
        "machine": bench.machine,
        "metric": bench.prepared.task.digest if bench.prepared.task else "",
        "source": bench.exported.evidence.name if bench.exported else "",
        "libraries": dict(bench.elsewhere.libraries) if bench.elsewhere is not None else {},
    }
    if chosen.compete:
        depends_on["targets"] = [to_wire(target.plain) for target in chosen.targets]
    return cache_key("run", depends_on)


def finished_run(store: Store, key: str) -> Outcome | None:
    """A finished run with everything it delivered, or None; points whose model is gone are left out."""
    outcome = store.read("runs", key, Outcome)
    if outcome is None:
        return None
    if outcome.result is not None and (damaged := damaged_files(outcome.result.candidate.model.path, store)):
        for file in damaged:
            if file.exists():
                store.drop("models", file.name, "it is not what its name says")
        return None
    outcome.first_s, outcome.seconds = outcome.seconds, 0.0
    outcome.points = [point for point in outcome.points if not point.proven or is_whole(point.candidate.model.path)]
    return outcome
