"""First looks: what the best guess of each pass does to the original, before any stage has the time.

Every pass has its turn within the first third of the search, whichever plugin it is of and whatever its name is. What
runs is timed for a few rounds on one sample, also what is beyond the budget: a lossy candidate that is fast and
near the budget is repaired before anything is polished. The stages then know what each pass gains and what it costs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from optim._engine.search.explore.expand import Expander
from optim._engine.search.explore.promise import GUESSES, TOO_LITTLE, Promises
from optim._engine.search.journal import Journal, step_of
from optim._engine.search.measure.clock import Clock
from optim._engine.search.plan import Plan, Planned
from optim._engine.search.state import Attempt, Candidate, Measured, StepStatus, Trial
from optim._engine.search.time_budget import TimeBudget
from optim._engine.search.workbench import Tried, Workbench
from optim.passes import Role, Stage

_REPAIRED = 2
"""The fastest that are repaired at once: the stages repair what else is near."""

_WHATEVER_THE_TIME = 2
"""Passes that are looked at even where asking them took all the time there is: what promises most is among them."""

_FIRST_SHARE = 0.6
"""Of the time for candidates, for those passes, however slow the machine: what is tried in their place promises less,
and with more nothing is left to go on with."""

_WORTH_A_REPAIR = 0.95
"""Latency to the original's: what is repaired has less of its gain left."""


@dataclass(frozen=True, slots=True)
class _Look:
    """A first guess that ran: the chain, whether it holds, and what the job said."""

    planned: Planned
    parent: Candidate
    attempt: Attempt
    tried: Tried
    candidate: Candidate
    holds: bool


class FirstLooks:
    """The beginning of one search."""

    def __init__(self, bench: Workbench, expander: Expander, clock: Clock, journal: Journal, time: TimeBudget) -> None:
        self._bench = bench
        self._expander = expander
        self._clock = clock
        self._journal = journal
        self._time = time
        self._promises: Promises = expander.promises

    def run(self, plan: Plan, start: float) -> list[Measured]:
        """Looks at each pass; returns what holds and was timed. Rows of the journal and promises have the rest.

        Args:
            plan: the passes.
            start: latency ratio of the original where candidates run.
        """
        passes = _fair_order(plan)
        if len(passes) < 2 or plan.forced():
            for planned in passes:
                self._promises.leave_open(step_of(planned.offered))
            return []
        self._bench.say("first looks")
        self._bench.teller.stage("first looks", lambda: self._bench.run_time.left)
        found = self._try(passes, {}, self._seconds)
        found += self._behind_what_makes_way(plan, passes)
        if not found:
            return []
        lanes = self._time.lanes_to_look_at(len(found))
        timed = sorted(found, key=lambda one: -self._promises.gain(one.attempt.step))[:lanes]
        measured = self._clock.first_look([one.candidate for one in timed], self._time.left_for_first_race)
        ratios = {item.digest: item for item in measured}
        for one in found:
            item = ratios.get(one.candidate.digest)
            if item is not None and item.ratio is not None:
                self._promises.note_ratio(one.attempt.step, item.ratio / start)
                self._journal.timed(item, start)
        self._repair(found, ratios, start)
        return [ratios[one.candidate.digest] for one in found if one.holds and one.candidate.digest in ratios]

    def sizes(self, plan: Plan) -> list[Measured]:
        """Looks at each lossy pass, where size is the goal: what holds, the smallest first; nothing is timed.

        Other types for the weights come first: they are nearest to the original and halve every model, so that
        something is there however short the time.
        """
        passes = [planned for planned in _fair_order(plan) if planned.pass_class.lossy]
        if not passes or plan.forced():
            return []
        self._bench.say("first looks")
        self._bench.teller.stage("first looks", lambda: self._bench.run_time.left)
        gains = {one.ordered.name: float(one.ordered.offered.stage is Stage.CONVERT_PRECISION) for one in passes}
        looks = self._try(passes, gains, self._seconds_for_size)
        held = [Measured(one.candidate, None) for one in looks if one.holds]
        return sorted(held, key=lambda item: item.candidate.size_bytes)

    def _seconds(self, place: int) -> float:
        """For the first looks that are timed: a third of the search."""
        if place < _WHATEVER_THE_TIME and not self._time.is_up:  # what cannot be proven any more need not be found
            return max(self._time.for_first_looks, self._time.grace_s, _FIRST_SHARE * self._time.for_candidate())
        return self._time.for_first_looks

    def _seconds_for_size(self, place: int) -> float:
        """For the first looks that are not timed: what candidates have."""
        return max(self._time.for_candidate(), self._time.grace_s if place < _WHATEVER_THE_TIME else 0.0)

    def _try(
        self, passes: Sequence[Planned], gains: Mapping[str, float], seconds: Callable[[int], float]
    ) -> list[_Look]:
        """The best guess of each pass on the original.

        Args:
            passes: that are asked for a guess.
            gains: what they promise, by name; none: what is known of their guesses.
            seconds: for each in its turn.
        """
        original = self._bench.original
        asked = self._expander.asker.ask(original, [planned.offered for planned in passes])
        wanted: list[tuple[Planned, Attempt]] = []
        for planned in passes:
            proposals = [one for one in asked[planned.ordered.name].proposals if one.changes]
            if not asked[planned.ordered.name].ran_out:
                self._promises.note_offer(planned.ordered.name, is_one=bool(proposals))
            if not proposals:
                continue
            attempt = self._journal.open(step_of(planned.offered, proposals[0].options), original)
            if reason := self._expander.slower_kernels(attempt.step, proposals[0]):
                attempt.settle(StepStatus.SKIPPED, reason)
            else:
                wanted.append((planned, attempt))
        gains = gains or {planned.ordered.name: self._promises.gain(attempt.step) for planned, attempt in wanted}
        order = [planned.ordered.name for planned in _in_turns([planned for planned, _ in wanted], gains)]
        wanted.sort(key=lambda one: order.index(one[0].ordered.name))
        trials = [Trial(original, planned.offered, attempt.step.options) for planned, attempt in wanted]

        self._bench.teller.more(len(trials))
        outcomes = self._bench.try_all(trials, seconds)
        for (_, attempt), tried in zip(wanted, outcomes, strict=True):
            if tried is None or tried.ran_out:
                self._promises.leave_open(attempt.step)
        looks = [
            self._look(planned, original, attempt, tried)
            for (planned, attempt), tried in zip(wanted, outcomes, strict=True)
            if tried is not None
        ]
        return [look for look in looks if look is not None]

    def _look(self, planned: Planned, parent: Candidate, attempt: Attempt, tried: Tried) -> _Look | None:
        """What came of a first guess; None where it is wrong, or too far from the budget to be repaired."""
        candidate = self._expander.judge(parent, attempt, tried)
        if candidate is not None:
            return _Look(planned, parent, attempt, tried, candidate, holds=True)
        if not self._expander.is_near(attempt, tried) or tried.answer is None:
            return None
        made = tried.answer.result
        beyond = parent.after(attempt.step, made.model, tried.answer.size_bytes, made.interface)
        return _Look(planned, parent, attempt, tried, beyond, holds=False)

    def _behind_what_makes_way(self, plan: Plan, passes: Sequence[Planned]) -> list[_Look]:
        """Each pass that only makes way, and behind it the best guess of what promises most then.

        What changes nothing makes way for nothing. Its rows in the journal serve its stage too.
        """
        order = [planned for those in plan.stages.values() for planned in those]
        found = []
        for place, enabling in enumerate(order):
            behind = [planned for planned in order[place + 1 :] if planned in passes]
            if enabling.pass_class.role is not Role.ENABLE or not behind or self._time.for_first_looks <= 0:
                continue
            made = [one for one in self._expander.expand(self._bench.original, [enabling]) if one.steps]
            found += [self._best_guess(made[0], behind)] if made else []
        return [look for look in found if look is not None]

    def _best_guess(self, parent: Candidate, passes: Sequence[Planned]) -> _Look | None:
        """The first guess of the pass that promises most on a chain; None where none promises enough."""
        asked = self._expander.asker.ask(parent, [planned.offered for planned in passes])
        guesses = []
        for planned in passes:
            options = [one.options for one in asked[planned.ordered.name].proposals if one.changes][:1]
            if options:
                self._promises.note_offer(planned.ordered.name, is_one=True)
                guesses.append((self._promises.of_pass(planned), planned, options[0]))
        if not guesses:
            return None
        gain, planned, chosen = max(guesses, key=lambda guess: guess[0])
        if gain < TOO_LITTLE:
            return None
        attempt = self._journal.open(step_of(planned.offered, chosen), parent)
        seconds = max(self._time.for_first_looks, self._time.grace_s)
        (tried,) = self._bench.try_all([Trial(parent, planned.offered, chosen)], lambda _: seconds)
        return None if tried is None else self._look(planned, parent, attempt, tried)

    def _repair(self, found: Sequence[_Look], measured: dict[str, Measured], start: float) -> None:
        """Repairs what is faster than anything that holds, the fastest first."""

        def ratio(one: _Look) -> float:
            item = measured.get(one.candidate.digest)
            return item.ratio if item is not None and item.ratio is not None else start

        held = min((ratio(one) for one in found if one.holds), default=start)
        broken = sorted((one for one in found if not one.holds), key=ratio)
        for one in broken[:_REPAIRED]:
            if ratio(one) < min(held, _WORTH_A_REPAIR * start):
                self._expander.repair(one.parent, one.planned, one.attempt, one.tried)


def _fair_order(plan: Plan) -> list[Planned]:
    """Passes before the stage tune that make a model faster: by what they promise, a pass of each plugin in turn."""
    passes = [
        planned
        for stage, those in plan.stages.items()
        for planned in those
        if stage is not Stage.TUNE and planned.pass_class.role is Role.IMPROVE
    ]
    return _in_turns(passes, {one.ordered.name: GUESSES.get(one.ordered.offered.stage, 0.0) for one in passes})


def _in_turns(passes: Sequence[Planned], gains: Mapping[str, float]) -> list[Planned]:
    """Settings first, which cost next to nothing, then what gains most; a pass of each plugin in turn."""
    by_plugin: dict[str, list[Planned]] = defaultdict(list)
    for planned in sorted(passes, key=lambda one: (not one.pass_class.session_only, -gains[one.ordered.name])):
        by_plugin[planned.offered.plugin.name].append(planned)
    turns = zip_longest(*by_plugin.values())
    return [planned for turn in turns for planned in turn if planned is not None]
