"""Rows of the report: what a chain is called, and the reasons that rows give."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from optim._engine.goals.bounds import Bound
from optim._engine.plugins.offers import OfferedPass
from optim._engine.search.plan import Planned
from optim._engine.search.state import Attempt, Candidate, Measured, Step, chain_of
from optim.cli_kit.output import options_text, size_text
from optim.goal import FASTER, Basis, Goal, ModelFigures, Ratio

OUT_OF_TIME = "search time ran out before it was tried; give more with --search-seconds"

NOT_TIMED = "correct, but search time ran out before it was timed; give more with --search-seconds"

_NO_LESS_MEMORY = "not clearly less than the original, or no time to measure it again"


def missing_rows(attempts: Iterable[Attempt], candidate: Candidate) -> list[Attempt]:
    """Makes rows for the steps of a chain that have none: settings that a graph was only looked at through."""
    there = {attempt.chain for attempt in attempts}
    found = []
    for place, step in enumerate(candidate.steps):
        behind = chain_of(candidate.target, candidate.steps[:place])
        if (*behind, step.key) not in there:
            found.append(
                Attempt(step, behind, drift=candidate.drift, size_bytes=candidate.size_bytes, task=candidate.task)
            )
    return found


def step_of(offered: OfferedPass, options: dict[str, object] | None = None) -> Step:
    """A step that applies this pass."""
    pass_class = offered.over_models
    return Step(
        offered.stage,
        offered.name,
        offered.plugin.name,
        dict(options or {}),
        pass_class.role,
        pass_class.lossy,
        pass_class.session_only,
    )


def failures(attempts: Iterable[Attempt], pass_name: str) -> str:
    """Why no attempt at a pass held, in one sentence: why the fastest did not, else what the first came to."""
    found = [attempt for attempt in attempts if attempt.step.pass_name == pass_name and attempt.reason]
    if not found:
        return "none of its candidates was left at the end"
    return min(found, key=lambda attempt: math.inf if attempt.ratio is None else attempt.ratio).why


def failing_of(forced: Sequence[Planned], attempts: Iterable[Attempt]) -> Planned:
    """The pass to blame where passes that must hold did not: the last that was tried and of which nothing held.

    Passes of a stage are tried in order, and no pass is tried after one that did not hold.
    """
    rows = list(attempts)

    def did_not_hold(planned: Planned) -> bool:
        own = [attempt for attempt in rows if attempt.step.pass_name == planned.name]
        return bool(own) and all(attempt.reason for attempt in own)

    return next(filter(did_not_hold, reversed(forced)), forced[0])


def why_kept(attempt: Attempt, goal: Goal) -> str:
    """The reason for an attempt that is part of what is delivered."""
    if attempt.step.role == "enable":
        return "later passes need it"
    if goal.basis is not Basis.CALLS and (figure := _figure(attempt, goal)):
        return f"{figure} with it"
    if attempt.ratio is not None and attempt.parent_ratio is not None:
        found = f"latency ratio {attempt.ratio:.2f}, {attempt.parent_ratio:.2f} without it"
        if attempt.proven or not attempt.was_no_faster:
            return found
        return f"part of the winner; in a first timing {found}"
    if attempt.ratio is not None:
        return f"latency ratio {attempt.ratio:.2f} with it"
    return "part of the best model found"


def why_no_faster(attempt: Attempt, found: Ratio) -> str:
    """The reason for an attempt that was faster when it was explored only: both figures belong into the report."""
    explored = f", {attempt.ratio:.2f} when explored" if attempt.ratio is not None else ""
    interval, said = found.interval, f"latency ratio {found.value:.2f} in the final timing"
    said += f" (95 % interval {interval[0]:.2f} to {interval[1]:.2f})" if interval else f" ({found.rounds} of them)"
    return f"not clearly faster than the original: {said}{explored}"


def broken_bound(attempt: Attempt, bounds: Iterable[Bound]) -> str:
    """Which bound the model after an attempt breaks, as far as its row knows; empty if none."""
    found = ModelFigures(attempt.size_bytes or 0, attempt.peak_memory_bytes)
    return next((bound.objection(found) for bound in bounds if bound.excess(found)), "")


def smallest_size(attempts: Iterable[Attempt]) -> int:
    """Bytes of the smallest model that was made and to which the gate has no objection; 0 if there is none."""
    return min((row.size_bytes for row in attempts if row.size_bytes and not row.objection), default=0)


def why_dropped(attempt: Attempt, goal: Goal, winner: Candidate, best: Measured | None) -> str:
    """The reason for an attempt that held and is not part of what is delivered."""
    if attempt.step.role == "enable" and attempt.ratio is None:
        return "no kept pass needs it"
    if goal.basis is Basis.SIZE and attempt.size_bytes:
        what = "the delivered model has" if winner.steps else "the original has"
        return f"{_figure(attempt, goal)}; {what} {size_text(winner.size_bytes)}"
    if attempt.goal_ratio is not None:
        goal_ratio = best.lane.goal if best else None
        won = f"the delivered model has {goal_ratio.value:.2f}" if goal_ratio else "not clearly less than before"
        return f"{_figure(attempt, goal)}; {won}"
    if goal.basis is Basis.MEMORY and attempt.peak_memory_bytes:
        what = f"the delivered model takes {size_text(best.peak_memory_bytes)}" if best else _NO_LESS_MEMORY
        return f"{_figure(attempt, goal)}; {what}"
    if goal.basis is Basis.ACCURACY and attempt.drift is not None:
        what = "the delivered model has" if winner.steps else "the original has"
        return f"{_figure(attempt, goal)}; {what} {winner.drift.relative_error:.2g}"
    if goal.basis is Basis.MEMORY:
        return "within the budget; memory not measured, because other candidates promised more"
    if attempt.ratio is None:
        return "within the budget; not timed, because other candidates promised more"
    if attempt.parent_ratio is not None and attempt.ratio >= attempt.parent_ratio * FASTER:
        return f"no faster: latency ratio {attempt.ratio:.2f}, {attempt.parent_ratio:.2f} without it"
    if best is not None and best.ratio is not None:
        won = _named(winner, attempt)
        when = "" if attempt.proven else " when explored"
        return f"latency ratio {attempt.ratio:.2f}{when}; {won} won with {best.ratio:.2f} in the final timing"
    return f"latency ratio {attempt.ratio:.2f}; the final model is not better with it"


def _named(winner: Candidate, row: Attempt) -> str:
    """A chain by its passes; with their options where ``row`` is the same pass with others, and with its target."""
    beside, words = row.step, []
    for step in winner.steps:
        options = options_text(step.options)
        differs = step.pass_name == beside.pass_name and step.key != beside.key and options
        words.append(f"{step.pass_name} ({options})" if differs else step.pass_name)
    chain = " + ".join(words) or "the original"
    return f"{chain} on {winner.target}" if winner.target != row.target and winner.target else chain


def _figure(attempt: Attempt, goal: Goal) -> str:
    """What the goal looks at, of the model after an attempt; empty where it is not known."""
    if goal.basis is Basis.MEMORY:
        return f"peak memory {size_text(attempt.peak_memory_bytes)}" if attempt.peak_memory_bytes else ""
    if goal.basis is Basis.ACCURACY:
        return f"drift {attempt.drift.relative_error:.2g}" if attempt.drift is not None else ""
    if goal.basis is Basis.CLOCK:
        return f"{goal.words.ratio} {attempt.goal_ratio:.2f}" if attempt.goal_ratio is not None else ""
    return size_text(attempt.size_bytes) if attempt.size_bytes else ""
