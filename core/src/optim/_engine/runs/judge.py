"""The verdict: what a search or a repeated chain comes to."""

from __future__ import annotations

from dataclasses import dataclass, field

from optim._engine.gate.budget import Budget
from optim._engine.runs.outcome import RunStatus
from optim._engine.search.beam import Beam, NamedPassError
from optim._engine.search.finale import Finale
from optim._engine.search.journal import Journal, failures
from optim._engine.search.nodes import Attempt, Measured, StepStatus
from optim._engine.search.plan import Plan
from optim._engine.search.points import Gallery, Point
from optim._engine.search.replay import replay
from optim._engine.search.workbench import Workbench
from optim._engine.timing.race import LaneResult
from optim.errors import ExitStatus, OptimError


@dataclass(frozen=True, slots=True)
class Verdict:
    """What it came to.

    Attributes:
        status: in a word.
        reason: in a sentence, where there is more to say than the figures do.
        result: what is delivered, or None.
        attempts: rows of the report.
        original: the clock's figures of the original.
        timing: the clock's figures of the result.
        points: everything that was measured.
    """

    status: RunStatus
    reason: str
    result: Measured | None
    attempts: list[Attempt]
    original: LaneResult | None = None
    timing: LaneResult | None = None
    points: list[Point] = field(default_factory=list)


def judge_search(bench: Workbench, budget: Budget, plan: Plan) -> Verdict:
    """Search, decide, and say what became of every attempt."""
    beam = Beam(bench, budget, plan)
    finale = Finale(bench, budget, beam.journal, beam.gallery)
    try:
        ranking = beam.run()
    except NamedPassError as failed:
        return _not_held(bench, beam, finale, plan, failed.what, failed.cause)
    bench.say("deciding")
    winner = finale.decide(ranking)
    forced = plan.forced()
    if winner is None and forced:
        name = forced[0].ordered.name
        beam.journal.conclude(bench.original)
        reason = failures([a for a in beam.journal.attempts if a.status is not StepStatus.SKIPPED], name)
        reason = next(iter(finale.clock.objections.values()), reason)
        return _not_held(bench, beam, finale, plan, f"{name} was asked for and did not hold", reason)
    if winner is None and bench.settings.says_a_budget and beam.gallery.nearest() and not beam.gallery.lossy_held:
        beam.journal.conclude(bench.original)
        return _missed(bench, beam, finale, f"nothing that is better keeps within the budget of {budget.text}")
    if winner is None:
        winner = _original(bench, finale)
        beam.journal.conclude(bench.original)
        status, reason = RunStatus.UNCHANGED, "nothing that was tried made it better"
    else:
        beam.journal.timed(winner, None)
        beam.journal.conclude(winner.node, winner)
        status, reason = RunStatus.IMPROVED, ""
    return Verdict(
        status,
        reason,
        winner,
        beam.journal.attempts,
        finale.clock.bases.get(winner.node.model.digest) or finale.clock.base or beam.clock.base,
        finale.clock.results.get(winner.node.model.digest),
        beam.gallery.points(winner.node),
    )


def judge_chain(bench: Workbench, budget: Budget) -> Verdict:
    """Repeat the chain that was asked for, and verify it.

    Raises:
        OptimError[replay-failed]: a step does not repeat, or the model is not right.
    """
    journal = Journal()
    node = replay(bench, budget, journal, bench.settings.chain or ())
    gallery = Gallery(budget)
    finale = Finale(bench, budget, journal, gallery)
    if bench.target.timed:
        measured = finale.measure([node])
    else:
        measured = [found for found in (finale.check(node),) if found is not None]
    if not measured:
        objection = finale.clock.objections[node.model.digest]
        raise OptimError(
            "replay-failed",
            "the repeated model is not right",
            objection,
            "run the search again, without the lock",
            status=ExitStatus.NOT_HELD,
        )
    journal.conclude(node, measured[0])
    status = RunStatus.IMPROVED if node.steps else RunStatus.UNCHANGED
    return Verdict(
        status,
        "repeated from a lock, verified, not searched again",
        measured[0],
        journal.attempts,
        finale.clock.base,
        finale.clock.results.get(measured[0].node.model.digest),
        gallery.points(node),
    )


def _original(bench: Workbench, finale: Finale) -> Measured:
    """The original as its own result: its figures against itself are 1 by definition."""
    if not bench.target.timed:
        return Measured(bench.original, None)
    if finale.clock.base is None:
        found = finale.measure([bench.original])
        if not found:
            raise OptimError(
                "not-reproducible",
                "the model does not repeat its own outputs",
                finale.clock.objections[bench.original.model.digest],
                "fix the seed of random operators in the model, or give --data that avoids them",
            )
    base = finale.clock.base
    latency = base.latency_ms if base else None
    peak = base.ready.peak_memory_bytes if base and base.ready else 0
    return Measured(bench.original, 1.0, 1.0, 1.0, latency, peak)


def _not_held(bench: Workbench, beam: Beam, finale: Finale, plan: Plan, what: str, cause: str) -> Verdict:
    beam.journal.conclude(bench.original)
    forced = {planned.ordered.name for planned in plan.forced()}
    attempts = beam.journal.attempts
    if any(a.step.pass_name in forced and "beyond the budget" in a.reason for a in attempts):
        return _missed(bench, beam, finale, f"{what}: {cause}")
    return Verdict(RunStatus.FAILED, f"{what}: {cause}", None, attempts, points=beam.gallery.points())


def _missed(bench: Workbench, beam: Beam, finale: Finale, reason: str) -> Verdict:
    """Nothing keeps within the budget: the nearest model is measured and kept aside."""
    nearest = beam.gallery.nearest()
    if nearest is not None:
        bench.say("measuring what is nearest to the budget")
        finale.aside(nearest)
    return Verdict(
        RunStatus.BUDGET_MISSED,
        reason,
        None,
        beam.journal.attempts,
        finale.clock.base or beam.clock.base,
        points=beam.gallery.points(),
    )
