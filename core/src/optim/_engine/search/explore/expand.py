"""One stage on one candidate: which candidates go on from it.

Passes of a stage are tried in order, each on the chain of what held before it (its *frontier*); passes of one
``alternatives`` group are tried on the same frontier. Everything that held stands in the pool, the chain that leaves
the stage out too, unless the user named a pass, or the target requires it: then only chains with it go on, and of what
the target requires those on which it has nothing left to do. What was tried is on the board.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from optim._engine.jobs.offer import Proposal
from optim._engine.jobs.recorded import last_lines
from optim._engine.search.board import Board
from optim._engine.search.deadline import LATER, Deadline
from optim._engine.search.explore.asking import Asker, Proposals
from optim._engine.search.explore.kernel_gains import KernelGains
from optim._engine.search.explore.promise import Promises
from optim._engine.search.explore.rest import NOT_TIMED, OUT_OF_TIME
from optim._engine.search.measure.idle_settings import IdleSettings
from optim._engine.search.measure.source_gate import SourceGate
from optim._engine.search.plan import Planned, slots
from optim._engine.search.rows import step_of
from optim._engine.search.select.repair import Near, Repairs, as_elsewhere
from optim._engine.search.state import Attempt, Candidate, Step, StepKey, StepStatus, Trial
from optim._engine.search.workbench import Tried, Workbench
from optim.goal import FASTER, Basis
from optim.passes import PassResult, Role, Stage

_STOPPED = "search time ran out during this candidate: it {failure}; give more with --search-seconds"


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A proposal, the pass that made it, its row, and whether it comes first of its pass."""

    planned: Planned
    proposal: Proposal
    attempt: Attempt
    best_guess: bool = False


class Expander:
    """Tries the passes of a stage on a candidate.

    Attributes:
        repairs: of what is beyond the budget by little.
        promises: what is known of passes.
        kernels: of this machine.
    """

    def __init__(self, bench: Workbench, board: Board, time: Deadline, promises: Promises) -> None:
        self._bench = bench
        self.asker = Asker(bench, time)
        self._budget = bench.budget
        self._board = board
        self._time = time
        self._source = SourceGate(bench, self._board)
        self.repairs = Repairs(bench, self._board, time, self.judge, promises.note_repaired)
        self._idle = IdleSettings(bench, time)
        self._broken: dict[StepKey, tuple[str, str]] = {}
        self.promises = promises
        self.kernels = KernelGains(bench, bench.work)

    def expand(self, parent: Candidate, passes: Sequence[Planned]) -> list[Candidate]:
        """Returns the parent and every candidate that goes on from it through this stage."""
        pool, frontier = [parent], [parent]
        for slot in slots(passes):
            new: list[Candidate] = []
            for candidate in frontier:
                known = {one.digest for one in (*pool, *new)}
                new += [one for one in self._try_slot(candidate, slot) if one is candidate or one.digest not in known]
            if any(planned.forced for planned in slot):
                pool = frontier = new
                if not new:
                    return []
            elif new:
                pool = pool + new
                frontier = new if slot[0].pass_class.role is Role.ENABLE else new[:1]
        return pool

    def session_variants(self, candidate: Candidate, passes: Sequence[Planned], most: int) -> list[Candidate]:
        """Returns the candidate under the first session settings that session-only passes propose, each pass alone.

        Settings that change nothing for it are left out.
        """
        found: list[Candidate] = []
        chosen = [planned for planned in passes if planned.pass_class.session_only]
        if not chosen:
            return found
        asked = self.asker.ask(candidate, [planned.offered for planned in chosen])
        for planned in chosen:
            answer = asked[planned.ordered.name]
            for proposal in answer.proposals:
                if proposal.result is not None and proposal.result.changed:
                    step = step_of(planned.offered, proposal.options)
                    found.append(
                        candidate.after(step, proposal.result.model, candidate.size_bytes, proposal.result.interface)
                    )
        found = found[:most]
        idle = self._idle.reasons(candidate, found)
        return [one for one in found if one.digest not in idle]

    def without_idle(self, candidate: Candidate, tuned: Sequence[tuple[Candidate, Attempt]]) -> list[Candidate]:
        """Leaves out settings that change nothing; their rows say so."""
        idle = self._idle.reasons(candidate, [one for one, _ in tuned])
        for one, attempt in tuned:
            if one.digest in idle:
                attempt.settle(StepStatus.DROPPED, idle[one.digest])
        return [one for one, _ in tuned if one.digest not in idle]

    def _try_slot(self, candidate: Candidate, slot: Sequence[Planned]) -> list[Candidate]:
        """Returns what holds of the passes of one slot, each tried on the same candidate.

        That is the candidate itself where what the target requires has nothing left to do on it.
        """
        asked = self.asker.ask(candidate, [planned.offered for planned in slot])
        asked_for: list[Candidate] = []
        tuned: list[tuple[Candidate, Attempt]] = []
        wanted: list[_Wanted] = []
        rows: list[tuple[Planned, Attempt]] = []
        for planned in slot:
            answer = asked[planned.ordered.name]
            if not answer.proposals:
                rows.append((planned, self.note_no_proposal(candidate, planned, answer)))
            against = "" if planned.forced else self.promises.reason_against(planned)
            for proposal in answer.proposals:
                attempt = self._board.open(step_of(planned.offered, proposal.options), candidate)
                rows.append((planned, attempt))
                one = _Wanted(planned, proposal, attempt, proposal is answer.proposals[0])
                reason = ("" if self._is_open(one, candidate) else against) or self._promises_too_little(candidate, one)
                broke = "" if planned.forced else self._broke_elsewhere(attempt.step, candidate)
                if (reason or broke) and not attempt.reason:
                    attempt.settle(StepStatus.SKIPPED, reason or broke)
                if reason:
                    continue
                if broke:
                    wanted += self._as_repaired_elsewhere(candidate, one)
                elif proposal.result is None or (planned.pass_class.lossy and proposal.result.changed):
                    wanted.append(one)  # lossy settings are compared as graphs are
                elif not proposal.result.changed:
                    attempt.unchanged = True
                    attempt.settle(StepStatus.DROPPED, "; ".join(proposal.result.notes))
                elif planned.forced:
                    asked_for.append(_with_settings(candidate, attempt, proposal.result))
                else:
                    tuned.append((_with_settings(candidate, attempt, proposal.result), attempt))
        held = asked_for + self.without_idle(candidate, tuned) + self._apply(candidate, wanted)
        is_needless = not held and any(self.needs_nothing(*row) for row in rows)
        return [candidate] if is_needless else held

    def _broke_elsewhere(self, step: Step, candidate: Candidate) -> str:
        """Why a step that broke the budget on another chain is not tried on this one; else nothing.

        Where size is the goal, the stage repairs what a first look has found.
        """
        chain, reason = self._broken.get(step.key, ("", ""))
        return "" if self._bench.goal.basis is Basis.SIZE and chain == candidate.digest else reason

    def step(self, parent: Candidate, planned: Planned, options: dict[str, Any], seconds: float) -> Candidate | None:
        """Tries one step on a candidate; returns the chain, repaired if need be, or None if it does not hold."""
        attempt = self._board.open(step_of(planned.offered, options), parent)
        tried = self._bench.try_one(Trial(parent, planned.offered, attempt.step.options), seconds)
        made = self.judge(parent, attempt, tried)
        if made is None and self.repairs.is_near(attempt, tried):
            made = self.repairs.repair(Near(planned, parent, attempt, tried))
        return made

    def needs_nothing(self, planned: Planned, attempt: Attempt) -> bool:
        """Whether a pass that the target requires, and nobody named, has found nothing left to do."""
        return planned.forced and not planned.is_named and attempt.unchanged

    def note_no_proposal(self, candidate: Candidate, planned: Planned, answer: Proposals) -> Attempt:
        """Has a pass's row say why it offers nothing for a chain; what the target requires may decline so."""
        attempt = self._board.open(step_of(planned.offered), candidate)
        attempt.settle(answer.status, answer.reason)
        attempt.out_of_time = answer.ran_out
        if answer.failure:
            attempt.printed, attempt.trace = tuple(last_lines(answer.failure.printed)), answer.failure.details
            attempt.broke = answer.failure.is_defect
        attempt.not_here = answer.not_here
        attempt.unchanged = attempt.unchanged or answer.status is StepStatus.NOT_APPLICABLE
        return attempt

    def _as_repaired_elsewhere(self, candidate: Candidate, one: _Wanted) -> list[_Wanted]:
        """The step with the options that it held with on another chain; nothing where nobody knows any."""
        options = self.repairs.known_for(one.attempt.step)
        if options is None:
            return []
        again = self._board.open(step_of(one.planned.offered, options), candidate)
        again.notes = again.notes or (as_elsewhere(one.planned),)
        return [_Wanted(one.planned, Proposal(options), again)]

    def _is_open(self, one: _Wanted, candidate: Candidate) -> bool:
        """Whether a proposal was made already, which takes no more time, and may be faster for all that is known."""
        trial = Trial(candidate, one.planned.offered, one.proposal.options)
        return (one.attempt.low is None or one.attempt.low < FASTER) and self._bench.has_tried(trial)

    def _promises_too_little(self, candidate: Candidate, one: _Wanted) -> str:
        """Why a proposal is not tried on a chain; empty where nothing speaks against it, or the user named its pass."""
        if one.planned.forced:
            return ""
        self.expect(one.attempt.step, one.proposal)
        if one.proposal.result is not None or one.attempt.ratio is not None:
            return ""
        return self.promises.adds_too_little(candidate, one.attempt.step, best_guess=one.best_guess)

    def expect(self, step: Step, proposal: Proposal) -> None:
        """Note what the kernels of a proposal promise at best."""
        gain = self.kernels.gain(proposal.kernels)
        if gain is not None:
            self.promises.expect(step, gain)

    def _apply(self, candidate: Candidate, wanted: Sequence[_Wanted]) -> list[Candidate]:
        """Returns the candidates that hold; for a pass without one, its closest, repaired."""
        planned = {one.planned.ordered.name: one.planned for one in wanted}
        if not self._bench.target.timed:
            return self._first_that_holds(candidate, wanted, planned)
        tried = self._try_all(candidate, wanted)
        judged = [(attempt.step.pass_name, self.judge(candidate, attempt, outcome)) for attempt, outcome in tried]
        # A slow rival that holds is no reason not to repair a fast pass of which nothing does.
        held = {name for name, new in judged if new is not None}
        broken = [(attempt, outcome) for attempt, outcome in tried if attempt.step.pass_name not in held]
        return [new for _, new in judged if new is not None] + self._repaired(candidate, planned, broken)

    def _first_that_holds(
        self, candidate: Candidate, wanted: Sequence[_Wanted], planned: dict[str, Planned]
    ) -> list[Candidate]:
        """Returns the first guess of each pass that holds, repaired if need be: no clock tells which is better."""
        found: dict[str, Candidate] = {}
        for one in wanted:
            name = one.planned.ordered.name
            if name in found:
                one.attempt.settle(
                    StepStatus.SKIPPED, "an earlier candidate meets the budget; without timing that is enough"
                )
                continue
            for attempt, outcome in self._try_all(candidate, [one]):
                new = self.judge(candidate, attempt, outcome)
                held = [new] if new is not None else self._repaired(candidate, planned, [(attempt, outcome)])
                if held:
                    found[name] = held[0]
        return list(found.values())

    def _try_all(self, candidate: Candidate, wanted: Sequence[_Wanted]) -> list[tuple[Attempt, Tried]]:
        """Runs the candidate jobs, those that promise most per second first.

        What the user named gets what the run has left, the rest what the search has.
        """
        order = sorted(wanted, key=lambda one: (not one.planned.forced, -self.promises.per_second(one.attempt.step)))
        trials = [Trial(candidate, one.planned.offered, one.proposal.options) for one in order]

        def seconds(place: int) -> float:
            forced = order[place].planned.forced
            if self._bench.has_tried(trials[place]):
                return self._time.grace_s
            return self._time.for_candidate(named=forced) if forced or self._time.before(LATER) > 0 else 0.0

        tried: list[tuple[Attempt, Tried]] = []
        self._bench.teller.more(len(wanted))
        for one, outcome in zip(order, self._bench.try_all(trials, seconds), strict=True):
            if outcome is None:
                if one.attempt.ratio is None and not one.attempt.reason:  # else its first look has said it
                    one.attempt.run_out(OUT_OF_TIME if one.attempt.drift is None else NOT_TIMED)
            else:
                tried.append((one.attempt, outcome))
        return tried

    def _repaired(
        self, parent: Candidate, planned: dict[str, Planned], tried: Sequence[tuple[Attempt, Tried]]
    ) -> list[Candidate]:
        """Returns the closest of the candidates that broke the budget, repaired, if it holds then."""
        near = [Near(planned[attempt.step.pass_name], parent, attempt, outcome) for attempt, outcome in tried]
        closest = self.repairs.closest(near)
        new = self.repairs.repair(closest) if closest is not None else None
        return [new] if new is not None else []

    def judge(self, candidate: Candidate, attempt: Attempt, tried: Tried) -> Candidate | None:
        """Returns the chain with this step if it holds; its row says why not."""
        self.promises.note_seconds(attempt.step.pass_name, tried.seconds)
        if tried.ran_out and tried.seconds < self._bench.settings.timeout_s:
            attempt.seconds += tried.seconds
            attempt.run_out(_STOPPED.format(failure=tried.failure))
            return None
        new = self._board.applied(attempt, candidate, tried)
        if new is None or tried.answer is None:
            return None
        objection = self._budget.objection(tried.answer.comparisons, new.is_lossy, tried.answer.task, provisional=True)
        if not objection and new.is_lossy:
            objection = self._source.objection(new)
        self._board.judged(new, objection)
        if objection:
            attempt.drop(objection)
            if new.drift.relative_error > self._budget.limit(new.is_lossy) and attempt.step.lossy:
                self._broken[attempt.step.key] = candidate.digest, f"on another chain: {objection}"
            return None
        self.promises.note_held(attempt.step)
        self.promises.note_run(candidate, attempt.step, tried.answer.run_s, self._bench.prepared.least_run_s)
        if attempt.step.stage is Stage.FUSE:
            self.promises.note_fused(new.digest)
        return new


def _with_settings(candidate: Candidate, attempt: Attempt, result: PassResult) -> Candidate:
    """The chain with a step that sets how the model is opened; its row has what the pass said."""
    attempt.notes, attempt.size_bytes, attempt.printed = result.notes, candidate.size_bytes, result.printed
    return candidate.after(attempt.step, result.model, candidate.size_bytes, result.interface)
