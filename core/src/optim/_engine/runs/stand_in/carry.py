"""Takes chains that were found on a stand-in to the whole model: applied step by step, verified and timed there.

The first that holds and helps is delivered. What holds on few layers may be beyond the budget on many, since errors add
up from layer to layer: then the next chain is tried.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from optim._engine.gate.budget import Objection
from optim._engine.reports.outcome import RunStatus, Verdict
from optim._engine.runs.judge import judge_chain
from optim._engine.runs.stand_in.layers import StandIn
from optim._engine.runs.stand_in.names import nodes_of, options_of_whole
from optim._engine.runs.stand_in.search import Chain, Found
from optim._engine.search.deadline import Deadline
from optim._engine.search.plan import Plan
from optim._engine.search.select.chains import BeyondBudgetError
from optim._engine.search.settings import Named
from optim._engine.search.state import Attempt, Candidate, StepStatus
from optim._engine.search.workbench import Workbench
from optim.errors import OptimError


@dataclass(frozen=True, slots=True)
class _Failed:
    """A chain that does not hold on the whole model, and why."""

    chain: Chain
    reason: Objection


_NO_MORE = "no time left to apply further results of the stand-in to the whole model; give more with --search-seconds"


def judge_carried(bench: Workbench, plan: Plan, stand_in: StandIn, found: Found) -> Verdict:
    """The verdict on the whole model.

    Args:
        bench: of the whole model, prepared.
        plan: which passes were tried.
        stand_in: what was searched.
        found: what came of that.
    """
    bench.deadline.note(stand_in.note)
    failed: list[_Failed] = []
    began = bench.deadline.now()
    for chain in found.chains:
        took_s = (bench.deadline.now() - began) / len(failed) if failed else 0.0
        if failed and took_s > bench.deadline.spare_s:
            bench.deadline.note(_NO_MORE)
            break
        bench.say(f"applying to the whole model: {chain.text}")
        try:
            verdict = _applied(bench, stand_in, chain)
        except OptimError as error:
            if error.reference != "replay-failed":
                raise
            failed.append(_Failed(chain, Objection(error.cause, isinstance(error, BeyondBudgetError))))
            continue
        if verdict.status is RunStatus.IMPROVED or plan.forced():
            return replace(verdict, attempts=_rows(found, stand_in, verdict, failed))
        objective = bench.objective
        best = objective.best_undecided([verdict.result] if verdict.result is not None else [])
        undecided = objective.why_undecided(best, bench.deadline) if best is not None else ""
        failed.append(_Failed(chain, Objection(undecided or "it is not better")))
    return _nothing_held(bench, plan, stand_in, found, failed)


def _applied(bench: Workbench, stand_in: StandIn, chain: Chain) -> Verdict:
    """What a chain comes to on the whole model.

    Raises:
        OptimError[replay-failed]: it does not hold there.
    """
    steps = chain.candidate.steps

    def options_at(place: int, whole: Candidate) -> Mapping[str, Any]:
        step = steps[place]
        if place not in chain.nodes:
            return step.options
        found = options_of_whole(step.options, chain.nodes[place], nodes_of(whole.model), stand_in)
        if found is None:
            raise OptimError(
                "replay-failed",
                f"{step.pass_name} does not repeat on the whole model",
                "it leaves out nodes that the whole model does not have",
                "search the whole model: give more time (--search-seconds)",
            )
        return found

    return judge_chain(bench, [Named(step.pass_name) for step in steps], _time(bench), options_at)


def _nothing_held(bench: Workbench, plan: Plan, stand_in: StandIn, found: Found, failed: Sequence[_Failed]) -> Verdict:
    """The verdict where no chain holds on the whole model, or none was found."""
    rows = _rows(found, stand_in, None, failed)
    if found.verdict.result is not None and not (plan.forced() and failed):
        verdict = judge_chain(bench, (), _time(bench))
        why = f"the result on {stand_in.text} fails on the whole model: " if failed else ""
        return replace(verdict, reason=f"{why}{failed[0].reason if failed else found.verdict.reason}", attempts=rows)
    if not failed:
        return Verdict(found.verdict.status, f"on {stand_in.text} {found.verdict.reason}", None, rows)
    beyond = any(one.reason.beyond_budget for one in failed)
    status = RunStatus.BUDGET_MISSED if beyond else RunStatus.FAILED
    return Verdict(status, f"on the whole model {failed[0].chain.text} fails: {failed[0].reason}", None, rows)


def _time(bench: Workbench) -> Deadline:
    """Nothing is searched any more, and what was found is proven whatever the time."""
    return bench.deadline.to_prove(bench.prepared, bench.settings.timeout_s, must=True)


def _rows(found: Found, stand_in: StandIn, verdict: Verdict | None, failed: Sequence[_Failed]) -> list[Attempt]:
    """Rows of the report: those of the stand-in say so, and what won there is a row of the whole model, or dropped."""
    rows = []
    for attempt in found.verdict.attempts:
        if attempt.status is StepStatus.KEPT and not failed:
            continue
        if attempt.status is StepStatus.KEPT:
            attempt.settle(
                StepStatus.DROPPED, f"within the budget on {stand_in.text}; on the whole model: {failed[0].reason}"
            )
        rows.append(replace(attempt, layers=stand_in.layers, notes=(*attempt.notes, f"tried on {stand_in.text}")))
    return [*rows, *(verdict.attempts if verdict is not None else ())]
