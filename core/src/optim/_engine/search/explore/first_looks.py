"""First looks: what the best guess of each pass does to the original, before any stage has the time.

Every pass has its turn within the first third of the search, what promises most per second first, whichever plugin it
is of and whatever its name is. What runs is timed for a few rounds on one sample, also what is beyond the budget: a
lossy candidate that is fast and near the budget is repaired before anything is polished. What gained is then put
together, the fusions and one lossy step behind them: often that is the best chain. The stages then know what each pass
gains and what it costs.

The best guess of each plugin and of each stage comes before any other, and has at least the grace of the deadline.

A goal with a clock of its own goes by what single calls and starts let expect of it. Where passes were named, they come
first, as a chain, and the others are looked at on the part of it that stands before them: what has the whole chain may
be delivered.

Where a round of the goal's clock takes seconds, as a decoder's answers do, that chain has what is there for this goal
alone too, a past in one buffer, and only what suits the goal is looked at on it: the likeliest chain is there before
any stage has the time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from optim._engine.jobs.offer import Proposal
from optim._engine.search.explore.expand import Expander
from optim._engine.search.explore.promise import BENEATH, Promises, fair_order, for_goal, leading_of
from optim._engine.search.measure.clock import LOOK_S, Clock
from optim._engine.search.plan import Plan, Planned
from optim._engine.search.select.repair import Guess
from optim._engine.search.state import ITSELF, Candidate, Measured, Step, StepStatus, unique
from optim._engine.search.taste import DIFFER, FEW, TOO_LITTLE
from optim.goal import Basis
from optim.passes import Role, Stage

_SHARE, _TRIES = 1 / 3, 0.7
"""Share of the search in which the best guess of every pass is tried: with less, slow machines try some only; and the
part of it in which candidates may begin: the rest is for timing them."""


@dataclass(frozen=True, slots=True)
class Look(Guess):
    """A guess that ran, with the chain that it made, and whether that holds."""

    candidate: Candidate = field(kw_only=True)
    holds: bool = field(kw_only=True)


class FirstLooks:
    """The beginning of one search.

    Attributes:
        together: the fusions that gained and the lossy step that gained most, in one chain, where it was timed.
    """

    def __init__(self, expander: Expander, clock: Clock) -> None:
        self._expander = expander
        self._clock = clock
        self._board = board = clock.board
        self._time = clock.time
        self._objective = board.objective
        self._promises: Promises = expander.promises
        self._repairs = expander.repairs
        self.together: list[Measured] = []

    def run(self, plan: Plan, start: float, *, likeliest: bool = True) -> list[Measured]:
        """Looks at each pass; returns what holds. Rows of the board and promises have the rest.

        Args:
            plan: the passes.
            start: latency ratio of the original where candidates run.
            likeliest: begin with what is there for a goal of long rounds alone; where that does not fit, without it.

        Returns:
            What was timed, and what was repaired since.
        """
        passes, begin = fair_order(plan, self._objective.goal.name), plan.forced()
        goal = self._objective.goal
        if goal.long_rounds and likeliest:
            begin += [one for one in passes if for_goal(one, goal.name) and not one.pass_class.lossy]
            passes = [one for one in passes if goal.name in one.pass_class.suits] if begin else passes
        several = len([one for one in passes if one.offered.stage is not Stage.TUNE]) > 1
        if not _is_chain(begin) and (not several or plan.forced()):
            return []
        made = self._named_chain(plan, begin)
        if made is None:
            return self.run(plan, start, likeliest=False) if begin != plan.forced() else []
        before, whole = made
        found = self._try(passes, before)
        if not begin:
            found += self._behind_what_makes_way(plan, passes)
        held = self._timed(found, start, whole)
        if not begin and self._objective.is_latency:
            self.together = self._together(plan, held)
        return held

    def _timed(self, found: Sequence[Look], start: float, whole: Candidate) -> list[Measured]:
        """Times what was found, and the named chain; repairs what is fast and near the budget.

        Args:
            found: looks at passes.
            start: latency ratio of the original.
            whole: what every delivered chain begins with; the original where no pass was named.
        """
        named = [whole] if whole.steps else []
        if not found and not named:
            return []
        items = self._race(found, named, start)
        ratios = self._ratios(items)
        held = [one.candidate for one in found if one.holds and _begins_with(one.candidate, whole)]
        right = [items[one.digest] for one in [*named, *held] if one.digest in items]
        right += [Measured(one) for one in (*named, *held) if one.digest not in items]
        for one in found:  # what was not timed, as on a busy machine, goes by what it promises
            promised = start * math.exp(-self._promises.gain(one.attempt.step))
            self._board[one.candidate].hoped = ratios.get(one.candidate.digest, promised)
        new = self.repaired(found, start)
        return right + [Measured(one) for one in new if _begins_with(one, whole)]

    def _together(self, plan: Plan, held: Sequence[Measured]) -> list[Measured]:
        """Tries the fusions that gained, and behind them the lossy step that gained most; returns what holds, timed.

        Nothing is tried where one of the two is expected to add little to the other.
        """
        gain = self._promises.gain
        planned = {one.name: one for one in plan.passes}
        alone: dict[str, Step] = {}
        for step in sorted((item.candidate.steps[0] for item in held if len(item.candidate.steps) == 1), key=gain):
            alone[step.pass_name] = step
        steps = [alone[name] for name in planned if name in alone]
        fusions = [step for step in steps if step.stage is Stage.FUSE and not step.lossy and gain(step) > 0]
        best = max((step for step in steps if step.stage in BENEATH), key=gain, default=None)
        if best is None or min(gain(best), sum(map(gain, fusions))) < TOO_LITTLE:
            return []
        candidate: Candidate | None = self._board.original
        for step in (*fusions, best):
            if candidate is None or (seconds := self._time.for_candidate()) <= 0:
                return []
            guess = self._expander.guess(planned[step.pass_name], candidate, [Proposal(step.options)])
            candidate = self._expander.step(guess, seconds)
        items = self._clock.first_look([candidate], LOOK_S) if candidate is not None else []
        for item in items:
            self._board.timed(item, None)
        return items

    def _race(self, found: Sequence[Look], named: Sequence[Candidate], start: float) -> dict[str, Measured]:
        """Times looks, and what was named, as far as there is time; returns what was timed, by its digest."""
        lanes = min(len(found) + len(named), int(self._time.before_last_race / self._time.lanes.lane_s) - 1)
        if lanes <= 0:
            return {}
        timed = sorted(found, key=lambda one: -self._promises.gain(one.attempt.step))[: max(0, lanes - len(named))]
        racing = [*named, *(one.candidate for one in timed)]
        items = {item.digest: item for item in self._clock.first_look(racing, max(LOOK_S, self._left(1.0)))}
        ratios = self._ratios(items)
        for one in found:
            if (ratio := ratios.get(one.candidate.digest)) is None:
                if self._board[one.candidate].is_late:
                    one.attempt.drop(self._board[one.candidate].objection)
                continue
            if self._objective.is_latency:
                self._promises.note_ratio(one.attempt.step, ratio / (ratios.get(one.parent.digest) or start))
            self._board.timed(items[one.candidate.digest], start)
        return items

    def _ratios(self, items: Mapping[str, Measured]) -> dict[str, float]:
        return {digest: ratio for digest, item in items.items() if (ratio := self._ratio(item)) is not None}

    def _ratio(self, item: Measured) -> float | None:
        """What the goal makes small, to the original's; None where it has no figure."""
        if self._objective.is_latency:
            return item.ratio
        if self._objective.goal.basis is Basis.CLOCK:
            return self._board[item.candidate].hoped
        original = self._objective.figure(Measured(self._board.original, ITSELF))
        figure = self._objective.figure(item)
        return figure / original if math.isfinite(figure) and 0 < original < math.inf else None

    def sizes(self, plan: Plan) -> list[Measured]:
        """Looks at each lossy pass, where size is the goal: what holds, the smallest first; nothing is timed.

        Other types for the weights come first: they are nearest to the original and halve every model, so that
        something is there however short the time.
        """
        passes = [planned for planned in fair_order(plan, self._objective.goal.name) if planned.pass_class.lossy]
        if not passes or (plan.forced() and not _is_chain(plan.forced())):
            return []
        made = self._named_chain(plan, plan.forced())
        if made is None:
            return []
        before, whole = made
        gains = {one.name: float(one.offered.stage is Stage.CONVERT_PRECISION) for one in passes}
        looks = self._try(passes, before, gains)
        for one in looks:
            if not one.holds:
                self._repairs.leave(one)
        held = [one.candidate for one in looks if one.holds and _begins_with(one.candidate, whole)]
        held += [whole] if whole.steps else []
        return sorted(map(Measured, held), key=lambda item: item.candidate.size_bytes)

    def _looks(self, guesses: Sequence[Guess], seconds: Callable[[int], float]) -> list[Look]:
        """Tries guesses; returns what came of those that hold, or are near enough to the budget to be repaired."""
        looks = [self._look(one) for one in self._expander.tried(guesses, seconds) if one is not None]
        return [look for look in looks if look is not None]

    def _look(self, one: Guess) -> Look | None:
        candidate = self._expander.judge(one)
        holds = candidate is not None
        if candidate is None:
            if not self._repairs.is_near(one) or one.tried.answer is None:
                return None
            candidate = one.parent.after(one.attempt.step, one.tried.answer.result, one.tried.answer.size_bytes)
        return Look(one.planned, one.parent, one.attempt, one.others, one.tried, candidate=candidate, holds=holds)

    def repaired(self, found: Sequence[Look], start: float) -> list[Candidate]:
        """Returns what holds in place of guesses that are faster than anything that holds, what promises most first.

        A proposal is applied and compared once, a repair many times, and what keeps more of its accuracy by itself
        leaves less to repair. So the other proposals of a pass come first; of what is still beyond the budget the
        nearest is repaired.

        Args:
            found: all looks.
            start: latency ratio of the original.
        """
        held = min((self._hoped(one) for one in found if one.holds), default=start)
        results: list[Candidate] = []
        broken = [one for one in found if not one.holds]
        for one in sorted(broken, key=self._left_by_repair):
            hoped = self._hoped(one)
            if hoped >= min(held, start / DIFFER):
                continue
            guesses = [self._expander.guess(one.planned, one.parent, [proposal]) for proposal in one.others[:FEW]]
            unbroken = self._expander.unbroken(guesses)
            others = self._looks(unbroken, lambda _: self._time.for_candidate())
            new = [other.candidate for other in others if other.holds]
            held = min([held, *(self._expected(one, made) for made in new)])
            results += new
            if held <= hoped:
                continue
            still = [look for look in (one, *others) if not look.holds]
            faster = [look for look in still if self._hoped(one, look.attempt.step) < start / DIFFER]
            near = self._repairs.closest(faster)
            if near is None or len(unbroken) < len(guesses):  # a nearer one was found on another chain
                self._repairs.leave(one)
            elif (made := self._repairs.repair(near)) is not None:
                held = min(held, self._expected(one, made))
                results.append(made)
        return results

    def _left_by_repair(self, one: Look) -> float:
        """The ratio that a repair is expected to leave: as much of the gain as the limit is of the drift.

        Another proposal of the same pass may need no repair.
        """
        hoped = self._hoped(one)
        if one.others or not one.drift:
            return hoped
        return 1.0 - min(1.0, self._repairs.aim(one.tried) / one.drift) * (1.0 - hoped)

    def _expected(self, one: Look, made: Candidate) -> float:
        """Notes and returns the ratio to expect of what is there in place of a look, by that of the look."""
        hoped = self._board[made].hoped = self._hoped(one, made.steps[-1])
        return hoped

    def _hoped(self, one: Look, step: Step | None = None) -> float:
        """The ratio of a look; with another step of its pass in its place, by what the two promise."""
        hoped, gain = self._board[one.candidate].hoped, self._promises.gain
        assert hoped is not None
        return hoped * math.exp(gain(one.attempt.step) - gain(step)) if step is not None else hoped

    def _left(self, share: float) -> float:
        """Seconds of a share of the time for first looks that are left; below zero when they are over."""
        return self._time.explores_since + _SHARE * share * self._time.search_s - self._time.now()

    @property
    def _for_looks(self) -> float:
        """Seconds for a candidate that has its first look; 0 when their time is over."""
        left = self._left(_TRIES)
        return min(self._time.timeout_s, left + self._time.grace_s) if left > 0 else 0.0

    def _try(
        self, passes: Sequence[Planned], before: Mapping[str, Candidate], sizes: Mapping[str, float] | None = None
    ) -> list[Look]:
        """The best guess of each pass on the original, what promises most per second first.

        Args:
            passes: that are asked for a guess.
            before: the chain that each is tried on, by name: passes that were named, else the original.
            sizes: where size is the goal and nothing is timed, what passes promise, by name.
        """
        guesses: list[Guess] = []
        for parent in unique(before[planned.name] for planned in passes):
            behind = [planned for planned in passes if before[planned.name].digest == parent.digest]
            asked = self._expander.asker.ask(parent, behind)
            for planned in behind:
                answer = asked[planned.name]
                if answer.changing:
                    guesses.append(self._expander.guess(planned, parent, answer.changing))
                elif not answer.proposals and not answer.ran_out:  # there may be no time to ask it again
                    self._expander.note_no_proposal(parent, planned, answer)
        gains = sizes or {one.planned.name: self._gain(one) for one in guesses}
        order = sorted(guesses, key=lambda one: -(sizes[one.planned.name] if sizes else self._per_second(one)))
        leading = leading_of([one.planned for one in order], [one.planned for one in guesses], gains)
        order.sort(key=lambda one: leading.index(one.planned) if one.planned in leading else len(leading))

        def seconds(place: int) -> float:
            """A third of the search, or the whole where nothing is timed; the leading ones whatever the time."""
            least_s = self._time.grace_s if place < len(leading) else 0.0
            return max(least_s, self._time.for_candidate() if sizes else self._for_looks)

        looks = self._looks(order, seconds)
        return [
            look
            for look in looks
            if not look.planned.pass_class.session_only
            or self._expander.without_idle(look.parent, [(look.candidate, look.attempt)])
        ]

    def _named_chain(self, plan: Plan, named: Sequence[Planned]) -> tuple[dict[str, Candidate], Candidate] | None:
        """Makes the chain of passes that were named; the original alone where none was, None where one does not hold.

        Returns:
            The part of it that stands before each pass of the plan, by name, and the whole.
        """
        self._expander.begin("first looks", "first looks")
        chain = self._board.original
        before: dict[str, Candidate] = {}
        for planned in plan.passes:
            before[planned.name] = chain
            if planned in named:
                longer = self._after(chain, planned)
                if longer is None:
                    return None
                chain = longer
        return before, chain

    def _after(self, parent: Candidate, planned: Planned) -> Candidate | None:
        """A chain with the first guess of one more pass, repaired if need be."""
        answer = self._expander.asker.ask(parent, [planned])[planned.name]
        if not answer.changing:
            declines = answer.status is StepStatus.NOT_APPLICABLE and not answer.proposals
            return parent if declines and not planned.is_named else None
        guess = self._expander.guess(planned, parent, answer.changing)
        made = self._expander.step(guess, self._time.for_candidate(named=True))
        return parent if self._expander.needs_nothing(guess) else made

    def _gain(self, one: Guess) -> float:
        """The gain to expect of a guess."""
        return self._promises.gain(one.attempt.step) + for_goal(one.planned, self._objective.goal.name)

    def _per_second(self, one: Guess) -> float:
        """The gain to expect of a guess for each of its seconds, with those of its lane in the race."""
        seconds = self._promises.expected_s(one.attempt.step.pass_name) + self._time.lanes.lane_s
        return self._gain(one) / seconds

    def _behind_what_makes_way(self, plan: Plan, passes: Sequence[Planned]) -> list[Look]:
        """Each pass that only makes way, and behind it the best guess of what promises most then.

        What changes nothing makes way for nothing. Its rows serve its stage too.
        """
        order = plan.passes
        found: list[Look] = []
        for place, enabling in enumerate(order):
            behind = [planned for planned in order[place + 1 :] if planned in passes]
            if enabling.pass_class.role is not Role.ENABLE or not behind or not self._for_looks:
                continue
            made = [one for one in self._expander.expand(self._board.original, [enabling]) if one.steps]
            found += self._best_guess(made[0], behind) if made else []
        return found

    def _best_guess(self, parent: Candidate, passes: Sequence[Planned]) -> list[Look]:
        """The first guess of the pass that promises most on a chain; nothing where none promises enough."""
        asked = self._expander.asker.ask(parent, passes)
        some = [planned for planned in passes if asked[planned.name].changing]
        best = max(some, key=self._promises.of_pass, default=None)
        if best is None or self._promises.of_pass(best) < TOO_LITTLE:
            return []
        guess = self._expander.guess(best, parent, asked[best.name].changing)
        return self._looks([guess], lambda _: max(self._for_looks, self._time.grace_s))


def _is_chain(named: Sequence[Planned]) -> bool:
    """Whether passes were named that others can be looked at on: one that changes what goes in is not."""
    return bool(named) and not any(planned.pass_class.recasts for planned in named)


def _begins_with(candidate: Candidate, chain: Candidate) -> bool:
    """Whether a candidate was made of a chain: what was named is in it."""
    return candidate.steps[: len(chain.steps)] == chain.steps
