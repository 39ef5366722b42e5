"""A whole run: source to verdict. Writes nothing but the cache."""

from __future__ import annotations

import importlib.metadata
import time
from collections.abc import Callable

from optim.errors import ExitStatus, OptimError
from optim.gate.budget import Budget
from optim.graphs.operators import operator_counts
from optim.passes import Role
from optim.plugins.registry import Registry
from optim.runs.outcome import Outcome, RunStatus
from optim.search.beam import Beam, PassDidNotHold
from optim.search.finale import Finale
from optim.search.journal import Journal, failures
from optim.search.nodes import Measured, StepStatus
from optim.search.plan import Plan, make_plan
from optim.search.replay import replay
from optim.search.settings import RunSettings
from optim.search.workbench import Workbench, thread_executor
from optim.store import Store

_PACKAGES = ("optim-core", "onnx", "onnx-ir", "numpy", "pydantic")


def execute(settings: RunSettings, registry: Registry, store: Store, say: Callable[[str], None]) -> Outcome:
    """Run the search, or repeat a chain, and judge.

    Raises:
        OptimError: the source, the feeds, the target or the request is unusable; nothing has been written.
    """
    started = time.monotonic()
    target = require_target(registry, settings.target)
    plan = make_plan(settings, registry, target)
    with store.in_use(), thread_executor() as executor:
        bench = Workbench(settings, registry, store, executor, say)
        source = bench.ingest()
        bench.prepare(source.model)
        budget = Budget(None if settings.lossless else settings.max_drift, bench.prepared.tolerance)
        search_started = time.monotonic()
        outcome = _replayed(bench, budget) if settings.chain is not None else _searched(bench, budget, plan)
        outcome.source = source
        outcome.search_s = time.monotonic() - search_started
        if outcome.result is not None:
            outcome.operators = operator_counts(outcome.result.node.model.path)
        kept = {bench.original.model.path} | ({outcome.result.node.model.path} if outcome.result else set())
        store.keep_only(bench.made, kept)
        outcome.computed, outcome.from_cache = bench.computed, bench.from_cache
    outcome.versions = _versions(bench)
    outcome.seconds = time.monotonic() - started
    return outcome


def require_target(registry: Registry, name: str):  # type: ignore[no-untyped-def]
    """The target of that name, if it can be used here.

    Raises:
        OptimError[unknown-target]: nobody offers it.
        OptimError[target-unavailable]: with the reason of its probe.
    """
    target = registry.target(name)
    if reason := registry.unavailable(target):
        raise OptimError(
            "target-unavailable", f"target {name} cannot be used on this machine", reason, "optim targets",
            status=ExitStatus.TARGET_UNAVAILABLE,
        )  # fmt: skip
    return target


def _searched(bench: Workbench, budget: Budget, plan: Plan) -> Outcome:
    beam = Beam(bench, budget, plan)
    finale = Finale(bench, budget, beam.journal)
    try:
        ranking = beam.run()
    except PassDidNotHold as failed:
        return _not_held(bench, beam.journal, plan, failed.what, failed.cause)
    bench.say("deciding")
    winner = finale.decide(ranking)
    forced = plan.forced()
    if winner is None and any(planned.pass_class.role is not Role.ENABLE for planned in forced):
        name = forced[0].ordered.name
        beam.journal.conclude(bench.original)
        reason = failures([a for a in beam.journal.attempts if a.status is not StepStatus.SKIPPED], name)
        return _not_held(bench, beam.journal, plan, f"{name} was asked for and did not hold", reason)
    if winner is None:
        winner = _original(bench, finale)
        beam.journal.conclude(bench.original)
        outcome = _outcome(bench, RunStatus.UNCHANGED, "nothing that was tried made it better", winner, beam.journal)
    else:
        beam.journal.timed(winner, None)
        beam.journal.conclude(winner.node, winner.ratio)
        outcome = _outcome(bench, RunStatus.IMPROVED, "", winner, beam.journal)
    outcome.original = finale.clock.base or beam.clock.base
    outcome.timing = finale.clock.results.get(winner.node.model.digest)
    return outcome


def _replayed(bench: Workbench, budget: Budget) -> Outcome:
    journal = Journal()
    node = replay(bench, budget, journal, bench.settings.chain or ())
    finale = Finale(bench, budget, journal)
    measured = finale.measure([node])
    if not measured:
        objection = finale.clock.objections[node.model.digest]
        raise OptimError(
            "replay-failed", "the repeated model is not right", objection, "run the search again, without the lock",
            status=ExitStatus.NOT_HELD,
        )  # fmt: skip
    journal.conclude(node, measured[0].ratio)
    status = RunStatus.IMPROVED if node.steps else RunStatus.UNCHANGED
    outcome = _outcome(bench, status, "repeated from a lock, verified, not searched again", measured[0], journal)
    outcome.original = finale.clock.base
    outcome.timing = finale.clock.results.get(measured[0].node.model.digest)
    return outcome


def _original(bench: Workbench, finale: Finale) -> Measured:
    """The original as its own result: its figures against itself are 1 by definition."""
    if finale.clock.base is None:
        found = finale.measure([bench.original])
        if not found:
            raise OptimError(
                "not-reproducible", "the model does not repeat its own outputs",
                finale.clock.objections[bench.original.model.digest],
                "fix the seed of random operators in the model, or give --data that avoids them",
            )  # fmt: skip
    base = finale.clock.base
    latency = base.latency_ms if base else None
    peak = base.ready.peak_memory_bytes if base and base.ready else 0
    return Measured(bench.original, 1.0, 1.0, 1.0, latency, peak)


def _not_held(bench: Workbench, journal: Journal, plan: Plan, what: str, cause: str) -> Outcome:
    journal.conclude(bench.original)
    forced = {planned.ordered.name for planned in plan.forced()}
    missed = any(a.step.pass_name in forced and "beyond the budget" in a.reason for a in journal.attempts)
    status = RunStatus.BUDGET_MISSED if missed else RunStatus.FAILED
    return _outcome(bench, status, f"{what}: {cause}", None, journal)


def _outcome(bench: Workbench, status: RunStatus, reason: str, result: Measured | None, journal: Journal) -> Outcome:
    placeholder: object = None
    return Outcome(
        bench.settings, bench.target, status, reason, placeholder, bench.prepared, None, result,  # type: ignore[arg-type]
        attempts=journal.attempts,
    )  # fmt: skip


def _versions(bench: Workbench) -> dict[str, str]:
    plugins = {p.info.package: p.info.version for p in bench.registry.plugins if p.info.package}
    own = {name: importlib.metadata.version(name) for name in _PACKAGES}
    return {**own, **plugins, **bench.prepared.versions}
