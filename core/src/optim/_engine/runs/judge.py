"""The verdict: what a search, or a repeated chain, comes to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from optim._engine.compare.original import not_reproducible
from optim._engine.gate.budget import Objection
from optim._engine.reports.outcome import RunStatus, Verdict
from optim._engine.search.board import Board
from optim._engine.search.deadline import Deadline
from optim._engine.search.explore.beam import untried, why_no_more
from optim._engine.search.front import points_of
from optim._engine.search.measure.clock import Clock
from optim._engine.search.measure.idle_settings import IdleSettings
from optim._engine.search.measure.lane_figures import as_base
from optim._engine.search.measure.racing import Races, TimingFailed
from optim._engine.search.measure.source_gate import SourceGate
from optim._engine.search.rows import failures, smallest_size, step_of
from optim._engine.search.select.chains import Chains
from optim._engine.search.select.selection import Selection
from optim._engine.search.settings import AUTO, Named
from optim._engine.search.state import ITSELF, Candidate, Measured, StepStatus
from optim._engine.search.targets.contest import Contest, Entrant
from optim._engine.search.taste import FEW
from optim._engine.search.workbench import Workbench
from optim.cli_kit.output import size_text
from optim.errors import ExitStatus, OptimError
from optim.jobs.wire import to_wire
from optim.options import parse_options
from optim.passes import Role

_UNTIMED = "there was no time to time the original; give more with --search-seconds"

_COST_UNKNOWN = "the result is the corrected original; there was no time to time it; give more with --search-seconds"

_STOPPED = "nothing was decided, because the original stopped running"


def judge_search(contest: Contest) -> Verdict:
    """Searches, decides, and says what became of every attempt, also where the baseline fails on the way."""
    base, entrants, stopped = contest.base, contest.entrants, ""
    try:
        verdict = _searched(contest)
    except TimingFailed as failed:
        what = f"{failed.what}, by {failed.package}: {failed.cause}. The report has the results before that"
        stopped, verdict = _STOPPED, Verdict(RunStatus.FAILED, what, None, [])
    result = verdict.result
    delivered = result.candidate if result is not None else base.original
    for one in entrants:
        one.beam.board.conclude(delivered, None if delivered.is_original else result, stopped)
    return replace(
        verdict,
        attempts=[attempt for one in entrants for attempt in one.beam.board.attempts],
        points=points_of([point for one in entrants for point in one.beam.board.found], delivered),
        searches=() if stopped else tuple((one.bench, one.beam.board) for one in entrants),
    )


def _searched(contest: Contest) -> Verdict:
    """The verdict of a search that can time what it finds.

    Raises:
        TimingFailed: it cannot.
    """
    if (found := contest.winner()) is not None:
        item, one = found
        one.beam.recall.keep(item)
        return _Ending(one.bench, one).delivery(item)
    if (nearest := contest.nearest) is not None:
        return _Ending(contest.base, nearest).nothing_better(contest.undecided)
    if contest.competes:
        reasons = "; ".join(f"{one.name}: {one.reason}" for one in contest.entrants)
        return Verdict(RunStatus.FAILED, reasons, None, [])
    ending = _Ending(contest.base, contest.entrants[0])
    return ending.made_right() or ending.not_held(contest.entrants[0].reason)


class _Ending:
    """A search at its end, and the verdict that it comes to."""

    def __init__(self, bench: Workbench, entrant: Entrant) -> None:
        self.bench, self.beam, self.plan = bench, entrant.beam, entrant.plan
        self.board, self.selection = entrant.beam.board, entrant.selection
        self.objective = self.board.objective

    def delivery(self, winner: Measured) -> Verdict:
        """The verdict where something is better than the original."""
        self.board.timed(winner, None)
        return self._verdict(_delivered(winner, self.selection), "", winner)

    def nothing_better(self, undecided: str = "") -> Verdict:
        """The verdict if nothing is better, and why."""
        undecided = undecided or self.selection.undecided
        idle = {attempt.step.pass_name for attempt in self.board.attempts if attempt.unchanged}
        forced = [one for one in self.plan.forced() if one.is_named or one.name not in idle]
        if (exact := self.made_right()) is not None:
            return exact
        if forced:
            # what only prepares need not be better: the pass that had to be was not
            first = next((one for one in forced if one.pass_class.role is Role.IMPROVE), forced[0])
            self.board.conclude(self.bench.original)
            tried = [row for row in self.board.attempts if row.status is not StepStatus.SKIPPED]
            why = next(iter(self.selection.objections), undecided or failures(tried, first.name))
            return self.not_held(f"{first.name} {first.why}, but it failed: {why}")
        reason = undecided or "no candidate is better than the original"
        if broken := self.objective.original_objection(self.bench.original):
            self.board.conclude(self.bench.original)
            return self._out_of_bounds(broken)
        if self.objective.is_accuracy:
            reason = f"the original keeps within {self.objective.bounds_text}, and nothing is more accurate"
            return self._verdict(RunStatus.UNCHANGED, reason, self._original())
        if self.bench.settings.says_a_budget and self.board.beyond(1) and not self.board.lossy_held:
            self.board.conclude(self.bench.original)
            nearest = self._measure_nearest()
            if nearest is not None and self.selection.would_help(nearest):
                return self._missed(f"no candidate that is better meets the budget of {self.bench.budget.text}")
            no_help = _why_no_help(nearest, timed=self.bench.target.timed)
            reason += f", and the candidate nearest to the budget of {self.bench.budget.text} {no_help}"
        reason += why_no_more(untried(self.board.attempts), self.bench.deadline)
        return self._verdict(RunStatus.UNCHANGED, reason, self._original())

    def _out_of_bounds(self, broken: str) -> Verdict:
        """The verdict if the original breaks a bound and nothing within the accuracy budget keeps within all of them.

        What keeps within them and is beyond the budget is kept aside, else what comes nearest to them.
        """
        if not self.objective.bounds:  # a latency limit that the goal keeps to itself
            return self._missed(f"no candidate meets the latency limit; original: {broken}")
        within = [one for one in self.board.beyond() if not self.objective.excess(Measured(one))]
        nearest = self.selection.measure_nearest(within[:FEW]) if within else None
        if nearest is not None and not self.objective.objection(nearest):
            budget = self.bench.budget.text
            return self._missed(
                f"no candidate meets both {self.objective.bounds_text} and {budget}; original: {broken}"
            )
        closer = self.selection.nearest_to_bounds()
        if nearest is not None and closer is not None:
            self.board.dismiss(nearest.candidate)
        nearest = closer or nearest
        said = f"no candidate within the accuracy budget meets {self.objective.bounds_text}; original: {broken}"
        if nearest is not None:
            said += f"; nearest candidate: {self.objective.objection(nearest)}"
        elif smallest := smallest_size(self.board.attempts):
            said += f"; smallest candidate, which was not timed: {size_text(smallest)}"
        return self._missed(said)

    def made_right(self) -> Verdict | None:
        """The verdict that delivers the original with the settings without which it is wrong here, not timed.

        None if the original is right, if more was asked for, or if they do not make it right.
        """
        inexact = self.bench.prepared.inexact
        if inexact is None or [one.name for one in self.plan.forced()] != [inexact.pass_name]:
            return None
        try:
            candidate = _repeat(self.bench, self.board, [Named(inexact.pass_name)])
        except OptimError:  # its row says why
            return None
        if self.board[candidate].objection:
            return None
        return self._verdict(RunStatus.PREPARED, _COST_UNKNOWN, Measured(candidate))

    def not_held(self, reason: str) -> Verdict:
        """The verdict where a named pass did not hold: the budget is missed where that is why, else the run failed."""
        self.board.conclude(self.bench.original)
        forced = {planned.name for planned in self.plan.forced()}
        attempts = self.board.attempts
        if any(attempt.step.pass_name in forced and attempt.objection.beyond_budget for attempt in attempts):
            self._measure_nearest()
            return self._missed(reason)
        return Verdict(RunStatus.FAILED, reason, None, attempts, points=self.board.points())

    def _verdict(self, status: RunStatus, reason: str, winner: Measured) -> Verdict:
        """The verdict of a search that delivers something."""
        self.board.conclude(winner.candidate, None if winner.candidate.is_original else winner)
        return Verdict(
            status,
            reason,
            winner,
            self.board.attempts,
            original=self.board[winner.candidate].base or self.objective.base,
            points=self.board.points(winner.candidate),
        )

    def _original(self) -> Measured:
        """The original as its own result: its figures against itself are 1 by definition.

        Raises:
            TimingFailed: it does not run any more.
            OptimError[not-reproducible]: it gives other outputs each time.
        """
        if not self.bench.target.timed:
            return Measured(self.bench.original)
        time = self.beam.time
        elsewhere = bool(self.beam.start.candidate.target)  # its races were against the original on the baseline
        may_do = self.beam.clock.proves or elsewhere or time.is_up or not time.may_prove_more
        is_timed = self.objective.base is not None and may_do
        if not is_timed and not time.may_prove_more:
            self.bench.deadline.note(_UNTIMED)
            return Measured(self.bench.original, ITSELF)
        if not is_timed and not self.selection.measure([self.bench.original]):
            score = self.board[self.bench.original]
            if score.result is not None and score.result.failure:
                raise Races(self.bench).failed(score.result.failure)
            if score.out_of_time:
                return Measured(self.bench.original, ITSELF)
            raise not_reproducible(score.objection.text)
        base = self.objective.base
        return Measured(self.bench.original, as_base(base) if base is not None and base.ratio is not None else ITSELF)

    def _measure_nearest(self) -> Measured | None:
        """The nearest model beyond the budget that would help, measured and kept aside, else the nearest of all.

        None where there is none, or none of the nearest runs.
        """
        nearest = self.board.beyond(FEW)  # the nearest may be slow where the next is fast
        if not nearest:
            return None
        self.bench.say("measuring the candidate nearest to the budget")
        return self.selection.measure_nearest(nearest)

    def _missed(self, reason: str) -> Verdict:
        """Nothing keeps within the budget."""
        return Verdict(
            RunStatus.BUDGET_MISSED,
            reason,
            None,
            self.board.attempts,
            original=self.objective.base,
            points=self.board.points(),
        )


def judge_lock(bench: Workbench) -> Verdict:
    """Repeat the chain that was asked for, and verify it.

    Raises:
        OptimError[replay-failed]: a step does not repeat, or the model is not right.
    """
    # nothing is searched, and nothing bounds its end
    time = Deadline(AUTO, bench.turns.now).to_prove(bench.prepared, bench.settings.timeout_s)
    time.notes = bench.deadline.notes
    board = Board(bench.original, bench.target, bench.objective, bench.budget)
    candidate = _repeat(bench, board, bench.settings.chain or ())
    chains = Chains(bench.try_step, board, time, IdleSettings(bench.session_digests, time))
    selection = Selection(Clock(Races(bench), board, time), chains, SourceGate(bench, board))
    if bench.target.timed:
        measured = selection.measure([candidate])
    else:
        measured = [found for found in (selection.check(candidate),) if found is not None]
    score = board[candidate]
    if not measured:
        raise OptimError(
            "replay-failed",
            "the repeated model is not right",
            score.objection.text,
            "run the search again, without the lock",
            status=ExitStatus.NOT_HELD,
        )
    board.conclude(candidate, measured[0])
    return Verdict(
        RunStatus.UNCHANGED if candidate.is_original else _delivered(measured[0], selection),
        "repeated from a lock and verified, without a search",
        measured[0],
        board.attempts,
        original=board.objective.base,
        points=board.points(candidate),
    )


def _repeat(bench: Workbench, board: Board, chain: Sequence[Named]) -> Candidate:
    """Applies the chain of a lock to the original, step by step: nothing is searched, each step is verified.

    Raises:
        OptimError[replay-failed]: a step fails, changes nothing, or is not right.
        OptimError[unknown-pass]: a step's plugin is not installed.
    """
    candidate = bench.original
    for named in chain:
        offered = bench.registry.find_pass(named.name, bench.target)
        step = step_of(offered, to_wire(parse_options(offered.over_models, named.options or {})))
        attempt, tried = board.open(step, candidate), bench.try_step(step, candidate, bench.settings.timeout_s)
        longer, reason = board.applied(attempt, candidate, tried), Objection(attempt.reason)
        if longer is not None and tried.answer is not None:
            candidate = longer
            reason = bench.budget.objection(tried.answer.comparisons, candidate.is_lossy)
        if reason:
            attempt.settle(StepStatus.FAILED, reason.text)
            raise OptimError(
                "replay-failed",
                f"{named.name} does not repeat",
                reason.text,
                "run the search again, without the lock",
                offered.plugin.release,
                ExitStatus.NOT_HELD,
            )
    return candidate


def _delivered(winner: Measured, selection: Selection) -> RunStatus:
    """Returns the status of a delivery: what was asked for by name need not be better."""
    return RunStatus.IMPROVED if selection.would_help(winner) else RunStatus.PREPARED


def _why_no_help(nearest: Measured | None, *, timed: bool) -> str:
    """Why a model beyond the budget would not be delivered with a larger budget either."""
    if nearest is None:
        return "does not run"
    names = " + ".join(step.pass_name for step in nearest.candidate.steps)
    if timed and nearest.ratio is None:
        return f"was not timed before the run ended: {names}"
    if nearest.ratio is None:
        return f"is not better either: {names}"
    figures = f"{names}, latency ratio {nearest.ratio:.2f}"
    if nearest.ratio >= 1:
        return f"is not better either: {figures}"
    span = f" [{found.low:.2f}, {found.high:.2f}]" if (found := nearest.lane.ratio) is not None else ""
    return f"is not proven to be better by the goal either: {figures}{span}"
