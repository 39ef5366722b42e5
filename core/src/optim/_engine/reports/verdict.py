"""The verdict of a run in one sentence that a person can act on, and what must be known beside it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from optim._engine.feeds.feedset import FEWEST, SYNTHESIZED
from optim._engine.gate.drift import worst_question
from optim._engine.goals.bounds import amount_text
from optim._engine.reports.words import share_text
from optim._engine.search.objective import figures_of
from optim._engine.search.taste import BUSY
from optim.goal import Basis, Words

if TYPE_CHECKING:
    from optim._engine.reports.outcome import Outcome
    from optim._engine.search.state import Measured
    from optim.goal import Ratio

_CALLS = Words("ratio", "{} times faster", "{} times slower", "as fast as before")

_SAME = 0.005
"""Within half a per cent two figures are called the same."""

_NEAR = 0.5
"""Of the budget: a detector of text that kept to 0.95 of it on three samples took 1.2 times as much on a fourth."""


def verdict(outcome: Outcome) -> str:
    """One sentence: what was gained and at which price, or why nothing is delivered.

    E.g. ``2.3 times faster (ratio 0.43, 95 % interval 0.42 to 0.44), 1.5 times smaller, drift 0.15 within the budget
    of 0.17``.
    """
    result = outcome.result
    if result is None:
        return f"{outcome.reason}; no model is delivered{_aside(outcome)}"
    if result.candidate.is_original:
        said = f"{outcome.reason}; the original is delivered unchanged" if outcome.reason else "the original, as it is"
        broke = dict.fromkeys(one.step.pass_name for one in outcome.attempts if one.broke)
        return f"{said}; passes that failed: {', '.join(broke)}" if broke else said
    before, after, recast = outcome.source.size_bytes, result.candidate.size_bytes, result.candidate.recast
    size = _compared(before, after, "the same size", "smaller", "larger")
    if recast is not None and result.ratio is not None:  # the original alone takes and gives something else
        time = _time(_CALLS, result.lane.ratio)
        return f"{time}, against the original with {recast.pass_name}, {size}, {_drift(outcome, result)}"
    words, clock = outcome.goal_words, result.lane.goal
    parts = [
        _on(outcome),
        _time(words, clock) if words is not None and clock is not None else _time(_CALLS, result.lane.ratio),
        _ran_on(outcome),
        size,
    ]
    if outcome.goal_basis in (Basis.SIZE, Basis.ACCURACY):
        parts = parts[::-1]
    if outcome.goal_basis is Basis.MEMORY:
        ready = outcome.original.ready if outcome.original else None
        peaks = ready.peak_memory_bytes if ready else 0, result.peak_memory_bytes
        parts.insert(0, _compared(*peaks, "as much memory as before", "less memory", "more memory"))
    return ", ".join(filter(None, [*parts, _drift(outcome, result), _within(outcome, result), outcome.reason]))


def _within(outcome: Outcome, result: Measured) -> str:
    """Returns how the result stands to the bounds of the user, with its figures."""
    found, said = figures_of(result, outcome.original), []
    for bound in outcome.bounds:
        amount = bound.goal.amount(found)
        text = amount_text(amount, bound.goal.unit) if amount is not None else ""
        said.append(bound.objection(found) or f"{bound.figure} {text} within {bound.text}")
    return ", ".join(said)


def _aside(outcome: Outcome) -> str:
    """Returns what was nearest to the budget, where nothing kept within it."""
    if outcome.nearest is None:
        return ""
    found = outcome.nearest
    speed = "" if found.ratio is None else f"ratio {found.ratio:.2f}, "
    task = "" if found.candidate.task is None else f", metric {found.candidate.task.value:.4g}"
    name = " + ".join(step.pass_name for step in found.candidate.steps)
    drift = f"drift {found.candidate.drift.relative_error:.3g}{_to_source(found)}"
    return f"; the nearest candidate is in nearest/: {name}, {speed}{drift}{task}"


def _to_source(found: Measured) -> str:
    """Returns how far it is from the source, where that is more than from the exported graph."""
    source = found.source
    if source is None or not source.samples or source.drift.relative_error <= found.candidate.drift.relative_error:
        return ""
    return f", {source.drift.relative_error:.3g} from the source"


def times(factor: float) -> str:
    """A factor above 1 in as many digits as it deserves."""
    return f"{factor:.3g}" if factor < 1.1 else f"{factor:.2g}" if factor < 100 else f"{factor:.0f}"


def _time(words: Words, found: Ratio | None) -> str:
    """Compares the time with that of the original, in words if the rounds are enough; empty if nothing was timed."""
    if found is None:
        return ""
    if found.interval is None:
        return f"{words.ratio} {found.text}"
    figures = f"({words.ratio} {found.value:.2f}, 95 % interval {found.low:.2f} to {found.high:.2f})"
    if found.low <= 1.0 <= found.high or abs(found.value - 1) < _SAME:
        return f"{words.same} {figures}"
    text = words.better.format(times(1 / found.value)) if found.value < 1 else words.worse.format(times(found.value))
    return f"{text} {figures}"


def _on(outcome: Outcome) -> str:
    """Returns where it runs, where several targets competed."""
    if not outcome.baseline or outcome.baseline == outcome.target.name:
        return ""
    return f"on {outcome.target.name}, against the original on {outcome.baseline}"


def _ran_on(outcome: Outcome) -> str:
    """Returns where a target that cannot be timed ran the nodes of the result."""
    ready = outcome.timing.ready if outcome.timing else None
    if outcome.target.timed or ready is None or not ready.executed_on:
        return ""
    share = share_text(ready.executed_on.get(outcome.target.runs_on, 0.0))
    return f"{share} of its nodes on {outcome.target.runs_on}"


def _compared(before: int, after: int, same: str, less: str, more: str) -> str:
    if not before or not after or abs(after / before - 1) < _SAME:
        return same
    return f"{times(before / after)} times {less}" if after < before else f"{times(after / before)} times {more}"


def _task(outcome: Outcome, result: Measured) -> str:
    use, figure = outcome.prepared.task, result.candidate.task
    if use is None or figure is None:
        return ""
    limit = outcome.settings.max_loss
    allowed = f" within the budget of {limit.text}" if limit else ""
    share = f" ({figure.loss / abs(figure.original):.2%})" if limit and limit.relative and figure.original else ""
    if figure.loss <= 0:
        return f", {use.metric.name} {figure.value:.4g} after {figure.original:.4g}, no loss"
    loss = f"a loss of {figure.loss:.2g}{share}{allowed}"
    return f", {use.metric.name} {figure.value:.4g} after {figure.original:.4g}, {loss}"


def _drift(outcome: Outcome, result: Measured) -> str:
    lossless = outcome.settings.lossless
    budget = outcome.settings.budget(outcome.prepared.tolerance)
    drift, at = f"drift {result.candidate.drift.relative_error:.2g}", worst_question(result.comparisons)
    task = _task(outcome, result)
    if (result.candidate.is_lossy or not outcome.target.exact) and not lossless:
        limit = budget.limit(lossy=True)
        drift = f"{drift} at {at}" if at else drift
        drift = drift if math.isinf(limit) else f"{drift}{',' if at else ''} within the budget of {limit:.2g}"
        made_up = " on synthesized samples" if outcome.prepared.origin == SYNTHESIZED else ""
        return f"{drift}{made_up}{task}"
    return f"rounding error only: {drift}, rounding explains up to {budget.limit(lossy=False):.2g}{task}"


def notes(outcome: Outcome) -> tuple[str, ...]:
    """What a person must know of the figures, a sentence each."""
    remark = filter(None, [outcome.target.remark])
    return (*remark, *outcome.prepared.notes, *outcome.notes, *_limits(outcome))


def _limits(outcome: Outcome) -> Iterator[str]:
    """Yields the limits of the figures: few rounds, other programs, and for a lossy result few samples or one size."""
    prepared, result, timing = outcome.prepared, outcome.result, outcome.timing
    ratio = timing.ratio if timing is not None else None
    if result is not None and not result.candidate.is_original and ratio is not None and ratio.interval is None:
        rounds = f"{ratio.rounds} round{'s were' if ratio.rounds != 1 else ' was'}"
        yield (
            f"a run takes so long that only {rounds} timed; with fewer than six the ratio has no interval, and "
            "optim does not call a result faster; give more with --search-seconds"
        )
    timed = timing or outcome.original
    if timed is not None and timed.disturbed > BUSY:
        yield (
            f"other programs used the machine during {timed.disturbed:.0%} of the timing: the figures are less "
            "certain; repeat the run on a quiet machine with --no-cache"
        )
    if result is None or not result.candidate.is_lossy:
        return
    if prepared.one_size:  # fitted ranges end there
        yield (
            f"all samples have {', '.join(prepared.one_size)}: the drift of a lossy result may be larger at other "
            "sizes; if you use other sizes, give such samples with --data"
        )
    limit = outcome.settings.budget(prepared.tolerance).limit(lossy=True)
    is_near = result.candidate.drift.relative_error > _NEAR * limit
    if 0 < prepared.available < FEWEST and prepared.origin != SYNTHESIZED and is_near:
        count = "1 sample" if prepared.available == 1 else f"{prepared.available} samples"
        yield (
            f"optim chose the result by the drift on {count}: other samples may be beyond the budget; "
            f"give {FEWEST} or more with --data"
        )
