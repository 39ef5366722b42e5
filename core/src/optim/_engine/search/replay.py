"""Repeat a known chain: no search, but verified all the same."""

from __future__ import annotations

from optim._engine.gate.budget import Budget
from optim._engine.gate.drift import worst_drift
from optim._engine.search.journal import Journal, step_of
from optim._engine.search.nodes import Node, StepStatus
from optim._engine.search.settings import Named
from optim._engine.search.workbench import Workbench
from optim.errors import ExitStatus, OptimError
from optim.jobs.wire import to_wire
from optim.options import parse_options


def replay(bench: Workbench, budget: Budget, journal: Journal, chain: tuple[Named, ...]) -> Node:
    """Apply ``chain`` to the original, step by step.

    Raises:
        OptimError[replay-failed]: a step fails, changes nothing, or is not right.
        OptimError[unknown-pass]: a step's plugin is not installed.
    """
    node = bench.original
    for named in chain:
        offered = bench.registry.find_pass(named.name, bench.target)
        options = to_wire(parse_options(offered.over_models, named.options or {}))
        attempt = journal.open(step_of(offered, options), node)
        tried = bench.try_one(node, offered, options, bench.settings.timeout_s)
        attempt.seconds = tried.seconds
        reason = tried.failure
        if tried.answer is not None:
            result = tried.answer.result
            attempt.counts, attempt.notes = dict(result.counts), result.notes
            attempt.drift = worst_drift(tried.answer.comparisons) if tried.answer.comparisons else None
            attempt.task, attempt.size_bytes = tried.answer.task, tried.answer.size_bytes or None
            new = node.after(attempt.step, result.model, tried.answer.size_bytes, result.interface)
            reason = (
                budget.objection(tried.answer.comparisons, new.is_lossy) if result.changed else "; ".join(result.notes)
            )
            node = new
        if reason:
            attempt.settle(StepStatus.FAILED, reason)
            raise OptimError(
                "replay-failed",
                f"{named.name} does not repeat",
                reason,
                "run the search again, without the lock",
                offered.plugin.release,
                ExitStatus.NOT_HELD,
            )
    return node
