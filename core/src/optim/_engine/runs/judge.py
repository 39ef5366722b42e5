"""The verdict: what a search or a repeated chain comes to."""

from __future__ import annotations

from dataclasses import dataclass, field

from optim._engine.gate.budget import Budget
from optim._engine.runs.outcome import RunStatus
from optim._engine.search.explore.beam import Beam, NamedPassError
from optim._engine.search.journal import Journal, failures
from optim._engine.search.measure.race import LaneResult
from optim._engine.search.plan import Plan
from optim._engine.search.select.archive import ParetoArchive, Point
from optim._engine.search.select.chains import repeat
from optim._engine.search.select.selection import Selection
from optim._engine.search.state import Attempt, Measured, StepStatus
from optim._engine.search.workbench import Workbench
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
    selection = Selection(bench, budget, beam.journal, beam.archive)
    try:
        ranking = beam.run()
    except NamedPassError as failed:
        return _not_held(bench, beam, selection, plan, failed.what, failed.cause)
    bench.say("deciding")
    winner = selection.decide(ranking)
    forced = plan.forced()
    if winner is None and forced:
        name = forced[0].ordered.name
        beam.journal.conclude(bench.original)
        reason = failures([a for a in beam.journal.attempts if a.status is not StepStatus.SKIPPED], name)
        reason = next(iter(selection.clock.objections.values()), reason)
        return _not_held(bench, beam, selection, plan, f"{name} was asked for and did not hold", reason)
    if winner is None and bench.settings.says_a_budget and beam.archive.nearest() and not beam.archive.lossy_held:
        beam.journal.conclude(bench.original)
        return _missed(bench, beam, selection, f"nothing that is better keeps within the budget of {budget.text}")
    if winner is None:
        winner = _original(bench, selection)
        beam.journal.conclude(bench.original)
        status, reason = RunStatus.UNCHANGED, "nothing that was tried made it better"
    else:
        beam.journal.timed(winner, None)
        beam.journal.conclude(winner.candidate, winner)
        status, reason = RunStatus.IMPROVED, ""
    return Verdict(
        status,
        reason,
        winner,
        beam.journal.attempts,
        selection.clock.bases.get(winner.candidate.model.digest) or selection.clock.base or beam.clock.base,
        selection.clock.results.get(winner.candidate.model.digest),
        beam.archive.points(winner.candidate),
    )


def judge_chain(bench: Workbench, budget: Budget) -> Verdict:
    """Repeat the chain that was asked for, and verify it.

    Raises:
        OptimError[replay-failed]: a step does not repeat, or the model is not right.
    """
    journal = Journal()
    candidate = repeat(bench, budget, journal, bench.settings.chain or ())
    archive = ParetoArchive(budget)
    selection = Selection(bench, budget, journal, archive)
    if bench.target.timed:
        measured = selection.measure([candidate])
    else:
        measured = [found for found in (selection.check(candidate),) if found is not None]
    if not measured:
        objection = selection.clock.objections[candidate.model.digest]
        raise OptimError(
            "replay-failed",
            "the repeated model is not right",
            objection,
            "run the search again, without the lock",
            status=ExitStatus.NOT_HELD,
        )
    journal.conclude(candidate, measured[0])
    status = RunStatus.IMPROVED if candidate.steps else RunStatus.UNCHANGED
    return Verdict(
        status,
        "repeated from a lock, verified, not searched again",
        measured[0],
        journal.attempts,
        selection.clock.base,
        selection.clock.results.get(measured[0].candidate.model.digest),
        archive.points(candidate),
    )


def _original(bench: Workbench, selection: Selection) -> Measured:
    """The original as its own result: its figures against itself are 1 by definition."""
    if not bench.target.timed:
        return Measured(bench.original, None)
    if selection.clock.base is None:
        found = selection.measure([bench.original])
        if not found:
            raise OptimError(
                "not-reproducible",
                "the model does not repeat its own outputs",
                selection.clock.objections[bench.original.model.digest],
                "fix the seed of random operators in the model, or give --data that avoids them",
            )
    base = selection.clock.base
    latency = base.latency_ms if base else None
    peak = base.ready.peak_memory_bytes if base and base.ready else 0
    return Measured(bench.original, 1.0, 1.0, 1.0, latency, peak)


def _not_held(bench: Workbench, beam: Beam, selection: Selection, plan: Plan, what: str, cause: str) -> Verdict:
    beam.journal.conclude(bench.original)
    forced = {planned.ordered.name for planned in plan.forced()}
    attempts = beam.journal.attempts
    if any(a.step.pass_name in forced and "beyond the budget" in a.reason for a in attempts):
        return _missed(bench, beam, selection, f"{what}: {cause}")
    return Verdict(RunStatus.FAILED, f"{what}: {cause}", None, attempts, points=beam.archive.points())


def _missed(bench: Workbench, beam: Beam, selection: Selection, reason: str) -> Verdict:
    """Nothing keeps within the budget: the nearest model is measured and kept aside."""
    nearest = beam.archive.nearest()
    if nearest is not None:
        bench.say("measuring what is nearest to the budget")
        selection.aside(nearest)
    return Verdict(
        RunStatus.BUDGET_MISSED,
        reason,
        None,
        beam.journal.attempts,
        selection.clock.base or beam.clock.base,
        points=beam.archive.points(),
    )
