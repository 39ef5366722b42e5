"""One stage on one candidate: which candidates go on from it.

Passes of a stage are tried in order, each on the chain of what held before it (its *frontier*); passes of one
``alternatives`` group are tried on the same frontier. Everything that held stands in the pool, the chain that leaves
the stage out too, unless the user named a pass, or the target requires it: then only chains with it go on, and of what
the target requires those on which it has nothing left to do. What was tried is on the board.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from optim._engine.jobs.offer import Proposal
from optim._engine.jobs.recorded import last_lines
from optim._engine.search.board import Board
from optim._engine.search.deadline import LATER, Deadline
from optim._engine.search.explore.asking import Asker, Proposals
from optim._engine.search.explore.kernel_gains import KernelGains
from optim._engine.search.explore.promise import Promises
from optim._engine.search.measure.source_gate import SourceGate
from optim._engine.search.plan import Planned, slots
from optim._engine.search.rows import NOT_TIMED, OUT_OF_TIME, step_of
from optim._engine.search.select.chains import Chains
from optim._engine.search.select.repair import Guess, Repairs
from optim._engine.search.state import Attempt, Candidate, Step, StepKey, StepStatus
from optim._engine.search.workbench import Workbench
from optim.goal import Basis
from optim.passes import PassResult, Role

_STOPPED = "search time ran out during this candidate: it {failure}; give more with --search-seconds"


class Expander:
    """Tries the passes of a stage on a candidate.

    Attributes:
        promises: what is known of passes.
        kernels: of this machine.
        asker: asks passes what they offer.
        repairs: of what is beyond the budget by little.
    """

    def __init__(
        self,
        bench: Workbench,
        board: Board,
        time: Deadline,
        promises: Promises,
        kernels: KernelGains,
        chains: Chains,
        source: SourceGate,
    ) -> None:
        self._bench = bench
        self._board = board
        self._time = time
        self._source = source
        self._broken: dict[StepKey, tuple[str, str]] = {}
        self._chains = chains
        self.promises = promises
        self.kernels = kernels
        self.asker = Asker(bench, time)
        self.repairs = Repairs(bench, board, time, chains, self.judge)

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

    def begin(self, stage: str, said: str) -> None:
        """Tells whoever waits that a stage begins."""
        self._bench.say(said)
        self._bench.teller.stage(stage, lambda: self._time.left)

    def session_variants(self, candidate: Candidate, passes: Sequence[Planned], most: int) -> list[Candidate]:
        """Returns the candidate under the first session settings that session-only passes propose, each pass alone.

        Settings that change nothing for it are left out.
        """
        chosen = [planned for planned in passes if planned.pass_class.session_only]
        asked = self.asker.ask(candidate, chosen) if chosen else {}
        found = [
            candidate.after(step_of(planned.offered, one.options), one.result)
            for planned in chosen
            for one in asked[planned.name].changing
            if one.result is not None
        ][:most]
        idle = self._chains.idle.reasons(candidate, found)
        return [one for one in found if one.digest not in idle]

    def without_idle(self, candidate: Candidate, tuned: Sequence[tuple[Candidate, Attempt]]) -> list[Candidate]:
        """Leaves out settings that change nothing; their rows say so."""
        idle = self._chains.idle.reasons(candidate, [one for one, _ in tuned])
        for one, attempt in tuned:
            if one.digest in idle:
                attempt.settle(StepStatus.DROPPED, idle[one.digest])
        return [one for one, _ in tuned if one.digest not in idle]

    def _try_slot(self, candidate: Candidate, slot: Sequence[Planned]) -> list[Candidate]:
        """Returns what holds of the passes of one slot, each tried on the same candidate.

        That is the candidate itself where what the target requires has nothing left to do on it.
        """
        asked = self.asker.ask(candidate, slot)
        asked_for: list[Candidate] = []
        tuned: list[tuple[Candidate, Attempt]] = []
        wanted: list[Guess] = []
        rows: list[Guess] = []
        for planned in slot:
            answer = asked[planned.name]
            if not answer.proposals:
                rows.append(self.note_no_proposal(candidate, planned, answer))
            against = "" if planned.forced else self.promises.reason_against(planned)
            for proposal in answer.proposals:
                one, result = self.guess(planned, candidate, [proposal]), proposal.result
                rows.append(one)
                attempt, reason = one.attempt, against
                if not reason and result is None and attempt.ratio is None and not planned.forced:
                    reason = self.promises.adds_too_little(candidate, attempt.step)
                broke = "" if planned.forced else self._broke_elsewhere(attempt.step, candidate)
                if (reason or broke) and not attempt.reason:
                    attempt.settle(StepStatus.SKIPPED, reason or broke)
                if reason:
                    continue
                if broke:
                    wanted += self._as_repaired(one)
                elif result is None or (planned.pass_class.lossy and result.changed):
                    wanted.append(one)  # lossy settings are compared as graphs are
                elif not result.changed:
                    attempt.unchanged = True
                    attempt.settle(StepStatus.DROPPED, "; ".join(result.notes))
                elif planned.forced:
                    asked_for.append(_with_settings(candidate, attempt, result))
                else:
                    tuned.append((_with_settings(candidate, attempt, result), attempt))
        held = asked_for + self.without_idle(candidate, tuned) + self._apply(wanted)
        return [candidate] if not held and any(map(self.needs_nothing, rows)) else held

    def unbroken(self, guesses: Sequence[Guess]) -> list[Guess]:
        """Leaves out guesses whose step broke the budget on another chain; their rows say so."""
        broken = [self._broke_elsewhere(one.attempt.step, one.parent) for one in guesses]
        for one, reason in zip(guesses, broken, strict=True):
            if reason and not one.attempt.reason:
                one.attempt.settle(StepStatus.SKIPPED, reason)
        return [one for one, reason in zip(guesses, broken, strict=True) if not reason]

    def _broke_elsewhere(self, step: Step, candidate: Candidate) -> str:
        """Why a step that broke the budget on another chain is not tried on this one; else nothing.

        Where size is the goal, the stage repairs what a first look has found.
        """
        chain, reason = self._broken.get(step.key, ("", ""))
        return "" if self._board.objective.goal.basis is Basis.SIZE and chain == candidate.digest else reason

    def guess(self, planned: Planned, parent: Candidate, proposals: Sequence[Proposal]) -> Guess:
        """Opens a row for the first of some proposals, and notes what its kernels promise; what must hold is tried."""
        attempt = self._board.open(step_of(planned.offered, proposals[0].options), parent)
        if not planned.forced and (gain := self.kernels.gain(proposals[0].kernels)) is not None:
            self.promises.expect(attempt.step, gain)
        return Guess(planned, parent, attempt, tuple(proposals[1:]))

    def step(self, one: Guess, seconds: float) -> Candidate | None:
        """Tries one step on a candidate; returns the chain, repaired if need be, or None if it does not hold."""
        tried = replace(one, tried=self._bench.try_one(one.application, seconds))
        made = self.judge(tried)
        return self.repairs.repair(tried) if made is None and self.repairs.is_near(tried) else made

    def needs_nothing(self, one: Guess) -> bool:
        """Whether a pass that the target requires, and nobody named, has found nothing left to do."""
        return one.planned.forced and not one.planned.is_named and one.attempt.unchanged

    def note_no_proposal(self, candidate: Candidate, planned: Planned, answer: Proposals) -> Guess:
        """Has a pass's row say why it offers nothing for a chain; what the target requires may decline so."""
        attempt = self._board.open(step_of(planned.offered), candidate)
        attempt.settle(answer.status, answer.reason)
        attempt.out_of_time = answer.ran_out
        if answer.failure:
            attempt.printed, attempt.trace = tuple(last_lines(answer.failure.printed)), answer.failure.details
            attempt.broke = answer.failure.is_defect
        attempt.not_here = answer.not_here
        attempt.unchanged = attempt.unchanged or answer.status is StepStatus.NOT_APPLICABLE
        return Guess(planned, candidate, attempt)

    def _as_repaired(self, one: Guess) -> list[Guess]:
        """The step with the options that a repair found, at its first look or on another chain; nothing if none did."""
        options = self.repairs.repaired_as.get(one.attempt.step.key)
        if options is None:
            return []
        again = self.guess(one.planned, one.parent, [Proposal(options)])
        left = f"what a repair on another chain leaves {one.planned.pass_class.kept}"
        again.attempt.notes = again.attempt.notes or (left,)
        return [again]

    def _apply(self, wanted: Sequence[Guess]) -> list[Candidate]:
        """Returns the candidates that hold; for a pass without one, its closest, repaired."""
        if not self._board.target.timed:
            return self._first_that_holds(wanted)
        judged = [(one, self.judge(one)) for one in self._try_all(wanted)]
        # A slow rival that holds is no reason not to repair a fast pass of which nothing does.
        held = {one.attempt.step.pass_name for one, new in judged if new is not None}
        broken = [one for one, _ in judged if one.attempt.step.pass_name not in held]
        repaired = self._repaired(broken)
        return [new for _, new in judged if new is not None] + ([repaired] if repaired is not None else [])

    def _first_that_holds(self, wanted: Sequence[Guess]) -> list[Candidate]:
        """Returns the first guess of each pass that holds, repaired if need be: no clock tells which is better."""
        found: dict[str, Candidate] = {}
        for one in wanted:
            name = one.attempt.step.pass_name
            if name in found:
                one.attempt.settle(
                    StepStatus.SKIPPED, "an earlier candidate meets the budget; without timing that is enough"
                )
                continue
            for tried in self._try_all([one]):
                if (new := self.judge(tried) or self._repaired([tried])) is not None:
                    found[name] = new
        return list(found.values())

    def _try_all(self, wanted: Sequence[Guess]) -> list[Guess]:
        """Runs the candidate jobs, those that promise most first.

        What the user named gets what the run has left, the rest what the search has.
        """
        order = sorted(wanted, key=lambda one: (not one.planned.forced, -self.promises.gain(one.attempt.step)))

        def seconds(place: int) -> float:
            forced = order[place].planned.forced
            if self._bench.has_tried(order[place].application):
                return self._time.grace_s
            return self._time.for_candidate(named=forced) if forced or self._time.before(LATER) > 0 else 0.0

        outcomes = self.tried(order, seconds)
        for one, outcome in zip(order, outcomes, strict=True):
            if outcome is None and one.attempt.ratio is None and not one.attempt.reason:  # else its first look said it
                one.attempt.run_out(OUT_OF_TIME if one.attempt.drift is None else NOT_TIMED)
        return [outcome for outcome in outcomes if outcome is not None]

    def tried(self, guesses: Sequence[Guess], seconds: Callable[[int], float]) -> list[Guess | None]:
        """Runs the candidate jobs of guesses, for arguments see :meth:`Workbench.try_all`; None: it came too late."""
        self._bench.teller.more(len(guesses))
        outcomes = self._bench.try_all([one.application for one in guesses], seconds)
        pairs = zip(guesses, outcomes, strict=True)
        return [replace(one, tried=outcome) if outcome is not None else None for one, outcome in pairs]

    def _repaired(self, tried: Sequence[Guess]) -> Candidate | None:
        """Returns the closest of the candidates that broke the budget, repaired, if it holds then."""
        closest = self.repairs.closest(tried)
        return self.repairs.repair(closest) if closest is not None else None

    def judge(self, one: Guess) -> Candidate | None:
        """Returns the chain with this step if it holds; its row says why not."""
        candidate, attempt, tried = one.parent, one.attempt, one.tried
        self.promises.note_seconds(attempt.step.pass_name, tried.seconds)
        if tried.ran_out and tried.seconds < self._time.timeout_s:
            attempt.seconds += tried.seconds
            attempt.run_out(_STOPPED.format(failure=tried.failure))
            return None
        new = self._board.applied(attempt, candidate, tried)
        if new is None or tried.answer is None:
            return None
        objection = self._board.budget.objection(
            tried.answer.comparisons, new.is_lossy, tried.answer.task, provisional=True
        )
        if not objection and new.is_lossy:
            objection = self._source.objection(new)
        self._board.judged(new, objection)
        if objection:
            attempt.drop(objection)
            limit = self._board.budget.limit(new.is_lossy)
            if attempt.step.lossy and new.drift.relative_error > limit:
                self._broken[attempt.step.key] = candidate.digest, f"on another chain: {objection}"
            return None
        self.promises.note_held(attempt.step.pass_name)
        self.promises.note_run(candidate, attempt.step, tried.answer.run_s, self._bench.prepared.least_run_s)
        return new


def _with_settings(candidate: Candidate, attempt: Attempt, result: PassResult) -> Candidate:
    """The chain with a step that sets how the model is opened; its row has what the pass said."""
    attempt.notes, attempt.size_bytes, attempt.printed = result.notes, candidate.size_bytes, result.printed
    return candidate.after(attempt.step, result)
