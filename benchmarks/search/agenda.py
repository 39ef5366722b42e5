"""An experiment: the search as one loop over one agenda, beside today's search in the harness alone.

    python benchmarks/search/regret.py --completed benchmarks/search/agenda.py:AgendaBeam
    python benchmarks/search/agenda.py run model.onnx -o out --search-seconds 30   # a real run

``next_actions`` is pure. It names the actions on known chains with the best expected gain for each second that leave
the proof its time. The gain of a plan of up to three steps is a normal distribution of logarithms; its value
is the expected gain above the best that is there, times the chance that it keeps within the budget. Its price is the
seconds of its tries and of one lane. ``AgendaBeam`` does the actions and hands what held to the proof as it is.

It knows the goal latency on one target, without named passes. [Its figures](RESULTS-search.md) say why core does not
have it.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist, fmean
from typing import TypeAlias

from optim._engine.jobs.offer import Proposal
from optim._engine.search.explore.beam import Beam
from optim._engine.search.measure import clock
from optim._engine.search.measure.clock import LOOK_S
from optim._engine.search.measure.racing import Wanted
from optim._engine.search.plan import Planned, slots
from optim._engine.search.rows import step_of
from optim._engine.search.select.repair import Guess
from optim._engine.search.state import Application, Attempt, Candidate, Measured, Step, StepKey
from optim._engine.search.taste import FEW, WORTH
from optim.passes import Role, Stage

NORMAL = NormalDist()

SPREADS, SPREAD = {Stage.QUANTIZE: 0.35, Stage.CONVERT_PRECISION: 0.15, Stage.TUNE: 0.06}, 0.12
"""The spread of the logarithm of a gain that nobody has measured, by stage. Settings gain nothing on average."""

ALIKE = 0.5
"""Share of that spread which is left if the pass was timed with other options, or on another chain."""

HOLDS, REPAIRED = 0.6, 0.7
"""Chances that a lossy step of which nothing is known keeps within the budget, and that a repair finds something."""

LEAST, DEEP = 0.002, 3
"""The expected gain that is worth an action, and the steps that a plan looks ahead."""


@dataclass(frozen=True)
class Option:
    """A step that may be tried: its place in the order, the logarithm of its gain, the spread of that, its seconds."""

    planned: Planned
    proposal: Proposal
    step: Step
    place: int
    gain: float
    spread: float
    seconds: float

    @property
    def is_free(self) -> bool:
        """Whether it only sets how a model is opened."""
        return self.proposal.result is not None and not self.step.lossy


@dataclass
class Node:
    """A chain: the place of its last step, the logarithm of its gain and its spread, and what was done with it.

    ``near`` is set if it is beyond the budget and may be repaired.
    """

    candidate: Candidate
    place: int
    gain: float = 0.0
    spread: float = 0.0
    item: Measured | None = None
    is_asked: bool = False
    is_late: bool = False
    near: Guess | None = None
    tried: set[StepKey] = field(default_factory=set)

    @property
    def is_open(self) -> bool:
        """Whether it waits for its first race."""
        return self.item is None and not self.is_late


@dataclass(frozen=True)
class Ask:
    """Ask passes about a chain."""

    node: Node


@dataclass(frozen=True)
class Try:
    """Try a step on a chain."""

    node: Node
    option: Option


@dataclass(frozen=True)
class Race:
    """Time chains."""

    nodes: tuple[Node, ...]


@dataclass(frozen=True)
class Mend:
    """Repair a chain."""

    node: Node


Action: TypeAlias = Ask | Try | Race | Mend
Plan: TypeAlias = tuple[float, float, Action]
"""Gain for each second, seconds of the action, and the action that the plan begins with."""


@dataclass(frozen=True)
class Prices:
    """The seconds that are left, and those that actions cost; ``lanes`` models may be open at once."""

    left_s: float
    lane_s: float
    ask_s: float
    lanes: int

    @property
    def most(self) -> int:
        """How many models one more race may have."""
        return min(self.lanes, int((self.left_s - LOOK_S) / self.lane_s) - 1)

    def fits(self, seconds: float) -> bool:
        """Whether something that ends with a lane leaves time for the race around it."""
        return seconds + LOOK_S + self.lane_s <= self.left_s


def gain_above(best: float, mean: float, spread: float) -> float:
    """Return the expected gain above the best that is there, of a normal distribution."""
    if spread <= 1e-9:
        return max(0.0, mean - best)
    z = (mean - best) / spread
    return spread * NORMAL.pdf(z) + (mean - best) * NORMAL.cdf(z)


def next_actions(
    nodes: Sequence[Node],
    options: Callable[[Node], Sequence[Option]],
    chance: Callable[[Node, Sequence[Option]], float],
    mend: Callable[[Node], tuple[float, float]],
    prices: Prices,
) -> list[Action]:
    """Return what is done next, side by side; nothing if nothing is worth its price.

    Args:
        nodes: all chains.
        options: steps that may follow one.
        chance: that steps on a chain keep within the budget.
        mend: the gain that a repair leaves a chain, and its seconds.
        prices: in seconds.
    """
    held = [one for one in nodes if one.near is None and not one.is_late]
    best = max((one.gain for one in held if one.item), default=0.0)
    there = max([0.0, *(one.gain for one in held)])
    is_full = sum(one.is_open for one in held) >= prices.most
    plans: list[Plan] = []
    for node in held:
        found = options(node)
        for first in found:
            after_untimed = is_full or (node.is_open and node.candidate.steps[-1].session_only)
            if first.step.key in node.tried or (first.is_free and after_untimed):
                continue
            value, seconds = _best_plan(node, first, found, there, chance, prices)
            seconds += 0.0 if node.is_asked else prices.ask_s
            if prices.fits(seconds) and value > LEAST:
                plans.append((value / seconds, first.seconds, Try(node, first) if node.is_asked else Ask(node)))
    for node in nodes:
        if node.near is not None and not node.tried:
            gain, seconds = mend(node)
            value, seconds = (
                REPAIRED * gain_above(there, gain, max(node.spread, 0.3 * abs(node.gain))),
                seconds + prices.lane_s,
            )
            if prices.fits(seconds) and value > LEAST:
                plans.append((value / seconds, seconds, Mend(node)))
    plans += _race([one for one in nodes if one.is_open], best, prices)
    plans.sort(key=lambda plan: -plan[0])
    return _side_by_side(plans)


def _best_plan(
    node: Node, first: Option, found: Sequence[Option], best: float, chance: Callable[..., float], prices: Prices
) -> tuple[float, float]:
    """Return the value and the seconds of the plan that begins with a step, longer as long as that pays."""
    plan = [first]
    value, seconds = _worth(node, plan, best, chance, prices.lane_s)
    while len(plan) < DEEP:
        later = [one for one in found if one.place > plan[-1].place]
        longer = [(*_worth(node, [*plan, one], best, chance, prices.lane_s), one) for one in later]
        better = [one for one in longer if one[1] <= prices.left_s and one[0] / one[1] > value / seconds]
        if not better:
            break
        value, seconds, more = max(better, key=lambda one: one[0] / one[1])
        plan.append(more)
    return value, seconds


def _worth(
    node: Node, plan: Sequence[Option], best: float, chance: Callable[..., float], lane_s: float
) -> tuple[float, float]:
    mean = node.gain + sum(one.gain for one in plan)
    spread = math.hypot(node.spread if node.gain < best else 0.0, *(one.spread for one in plan))
    holds, value = chance(node, plan), gain_above(best, mean, spread)
    if any(one.step.lossy for one in plan):  # what does not hold may be repaired
        value = holds * value + (1 - holds) * REPAIRED / 2 * gain_above(best, 0.6 * mean, spread)
    return value, sum(one.seconds for one in plan) + lane_s


def _race(waiting: Sequence[Node], best: float, prices: Prices) -> list[Plan]:
    """Return the race that is worth most for each second; what may be repaired has lanes that are left."""
    values = [(gain_above(best, one.gain, one.spread), one) for one in waiting]
    values = sorted((one for one in values if one[0] > LEAST), key=lambda one: -one[0])
    held = [one for one in values if one[1].near is None][: max(0, prices.most)]
    near = [one for _, one in values if one.near is not None and not one.tried]
    races: list[Plan] = []
    for lanes in range(1, len(held) + 1):
        seconds = LOOK_S + (lanes + 1) * prices.lane_s
        nodes = (*(one for _, one in held[:lanes]), *near[: min(FEW, prices.most - lanes)])
        races.append((sum(value for value, _ in held[:lanes]) / seconds, seconds, Race(nodes)))
    return [max(races, key=lambda race: race[0])] if races else []


def _side_by_side(plans: Sequence[Plan]) -> list[Action]:
    """Return the first action, with what is done beside it: other settings of a chain, or tries of other passes."""
    if not plans or not isinstance(plans[0][2], Try):
        return [plan[2] for plan in plans[:1]]
    first, tries = plans[0][2], [(seconds, one) for _, seconds, one in plans if isinstance(one, Try)]
    if first.option.is_free:
        return [one for _, one in tries if one.node is first.node and one.option.is_free][:FEW]
    chosen: list[Action] = [first]
    known, beside_s = {(first.node.candidate.digest, first.option.step.pass_name)}, 0.0
    for _, seconds, one in plans[1:]:
        if isinstance(one, Race | Mend) or beside_s >= plans[0][1]:
            break
        if not isinstance(one, Try) or one.option.is_free:
            continue
        name = (one.node.candidate.digest, one.option.step.pass_name)
        if name not in known and (not beside_s or beside_s + seconds <= max(1.2 * plans[0][1], 0.5)):
            known.add(name)
            chosen.append(one)
            beside_s += seconds
    return chosen


class AgendaBeam(Beam):
    """Today's search with the agenda in place of first looks and stages."""

    def look(self) -> float:
        """Nothing: the agenda has looks of its own."""
        return 1.0

    def search(self) -> list[Measured]:
        """Do what the agenda says until it says nothing; returns what held, the best first."""
        self._expander.kernels.find()
        order = [slot for those in self._plan.stages.values() for slot in slots(those)]
        self._order = [(place, planned) for place, slot in enumerate(order) for planned in slot]
        self._drifts: dict[StepKey, float] = {}
        self._offers: dict[str, list[tuple[int, Planned, Proposal]]] = {}
        self._gains: dict[StepKey, list[float]] = {}
        root = Node(self._bench.original, -1, item=self.start)
        self._nodes = {root.candidate.digest: root}
        self._ask(root)
        while actions := next_actions(
            list(self._nodes.values()), self._options, self._chance, self._mending, self._prices
        ):
            first = actions[0]
            if isinstance(first, Ask):
                self._ask(first.node)
            elif isinstance(first, Race):
                self._time(first.nodes)
            elif isinstance(first, Mend):
                self._repair(first.node)
            else:
                self._try([one for one in actions if isinstance(one, Try)])
        held = [one for one in self._nodes.values() if one.near is None]
        items = [one.item for one in held if one.item is not None]
        if not any(item.ratio and item.ratio < WORTH for item in items):
            for one in (one for one in held if one.is_open):
                self.board[one.candidate].hoped = math.exp(-one.gain)
                items.append(Measured(one.candidate))
        return self.board.ranked(items)

    # what is known

    @property
    def _prices(self) -> Prices:
        """As long as nothing holds there is no proof to keep time for, and what is begun may end."""
        left_s, held = self.time.before_last_race, [one for one in self._nodes.values() if one.near is None]
        left_s += self.time.grace_s if left_s > 0 and len(held) == 1 else 0.0
        return Prices(left_s, self.time.lanes.lane_s, self._ask_s, self._races.at_once)

    def _options(self, node: Node) -> list[Option]:
        """Steps that may follow a chain: those that its passes offered, else those of the original."""
        offers, found = self._offers.get(node.candidate.digest) or self._offers[self._bench.original.digest], []
        for place, planned, proposal in offers:
            if place <= node.place:
                continue
            step = step_of(planned.offered, proposal.options)
            found.append(self._option(place, planned, proposal, step))
            known = None if step.session_only else self.repairs.repaired_as.get(step.key)
            if known is not None:
                again = Proposal(known, None, proposal.kernels)
                found.append(self._option(place, planned, again, step_of(planned.offered, known)))
        return found

    def _option(self, place: int, planned: Planned, proposal: Proposal, step: Step) -> Option:
        if proposal.kernels and (at_best := self._expander.kernels.gain(proposal.kernels)) is not None:
            self._promises.expect(step, at_best)
        seen = self._gains.get(step.key)
        is_known = any(name == step.pass_name for name, _ in self._promises._gained)
        gain = fmean(seen) if seen else self._promises.gain(step)
        spread = SPREADS.get(step.stage, SPREAD) * (ALIKE if seen or is_known else 1.0)
        if step.role is Role.ENABLE:
            gain = spread = 0.0
        elif step.session_only and not is_known:
            gain = 0.0
        is_free = step.session_only and not step.lossy
        return Option(
            planned, proposal, step, place, gain, spread, self._ask_s if is_free else self._seconds(step.pass_name)
        )

    def _seconds(self, name: str) -> float:
        """Return what a try takes: what it took here; else a guess by the size, times what guesses were off by."""
        prepared, known = self._bench.prepared, self._promises._seconds
        guess = 0.3 + 20e-9 * self._bench.original.size_bytes + 2 * prepared.open_s + 4 * prepared.run_s

        def guessed(one: str) -> float:
            return guess * (2.0 if one in self._promises._calibrating else 1.0)

        off = [math.log(seconds / guessed(one)) for one, seconds in known.items()]
        return known.get(name) or guessed(name) * math.exp(sum(off) / (1 + len(off)))

    def _chance(self, node: Node, plan: Sequence[Option]) -> float:
        """Return the chance that steps on a chain keep within the budget, by the drift of each elsewhere."""
        drift, chance, doubt = node.candidate.drift.relative_error if node.candidate.is_lossy else 0.0, 1.0, 0.3
        for step in (one.step for one in plan if one.step.lossy):
            of_pass = [found for key, found in self._drifts.items() if key[0] == step.pass_name]
            if step.key in self._drifts:
                drift = math.hypot(drift, self._drifts[step.key])
            elif of_pass:
                drift, doubt = math.hypot(drift, min(of_pass)), 1.0
            else:
                chance *= HOLDS
        limit = max(1e-9, self._bench.budget.limit(lossy=True))
        return chance * NORMAL.cdf(math.log(limit / drift) / doubt) if drift > 0 else chance

    def _mending(self, node: Node) -> tuple[float, float]:
        """Return the gain that a repair leaves, less the further it is beyond the budget, and its seconds."""
        assert node.near is not None
        beyond = node.near.drift / max(1e-9, self.repairs.aim(node.near.tried))
        kept = max(0.1, 1 - 0.25 * math.log(max(1.0, beyond)))
        return node.gain * kept, max(1.0, 4 * node.near.attempt.seconds)

    # what is done

    def _ask(self, node: Node) -> None:
        began, later = self.time.now(), [(place, one) for place, one in self._order if place > node.place]
        asked = self._asker.ask(node.candidate, [planned for _, planned in later])
        found = self._offers[node.candidate.digest] = []
        for place, planned in later:
            answer = asked[planned.name]
            if not answer.proposals and not answer.ran_out:
                self._expander.note_no_proposal(node.candidate, planned, answer)
            found += [(place, planned, one) for one in answer.proposals if one.changes]
        node.is_asked, self._ask_s = True, self.time.now() - began

    def _try(self, tries: Sequence[Try]) -> None:
        rows = [(one.node, one.option, self.board.open(one.option.step, one.node.candidate)) for one in tries]
        for node, option, _ in rows:
            node.tried.add(option.step.key)
        if tries[0].option.is_free:
            self._set(rows)
            return
        trials = [Application(node.candidate, option.planned.offered, row.step.options) for node, option, row in rows]
        self._bench.teller.more(len(trials))
        found = self._bench.try_all(trials, lambda _: max(0.0, self.time.before_last_race) + self.time.grace_s)
        for (node, option, row), tried in zip(rows, found, strict=True):
            if tried is None:
                continue
            done = Guess(option.planned, node.candidate, row, (), tried)
            made, near = self._expander.judge(done), None
            if row.drift is not None and option.step.lossy:
                self._drifts.setdefault(option.step.key, row.drift.relative_error)
            if made is None and self.repairs.is_near(done) and tried.answer is not None:
                result = tried.answer.result
                made = node.candidate.after(row.step, result, tried.answer.size_bytes)
                near = done
            if made is not None:
                self._add(node, option, made, near)

    def _set(self, rows: Sequence[tuple[Node, Option, Attempt]]) -> None:
        """Lay settings over one chain, but for those that change nothing."""
        node, made = rows[0][0], []
        for _, option, row in rows:
            result = option.proposal.result
            assert result is not None
            made.append((node.candidate.after(row.step, result), row))
        kept = self._expander.without_idle(node.candidate, made)
        for (_, option, _), (one, _) in zip(rows, made, strict=True):
            if one in kept:
                self._add(node, option, one)

    def _add(self, node: Node, option: Option, made: Candidate, near: Guess | None = None) -> None:
        new = Node(made, option.place, node.gain + option.gain, math.hypot(node.spread, option.spread), near=near)
        self._nodes.setdefault(made.digest, new)

    def _time(self, nodes: Sequence[Node]) -> None:
        near, held = [one for one in nodes if one.near], [one for one in nodes if not one.near]
        if near:
            self._note(near, self.clock.first_look([one.candidate for one in near], 2 * LOOK_S))
        effort = clock.look(self.time, max(LOOK_S, self.time.lanes.lane_s * len(held)), len(held))
        wanted = Wanted(self._bench.prepared.explored, gated=True)
        items = self.clock.measure([one.candidate for one in held], effort, wanted)
        self.time.lanes.note_lanes(base.open_s if (base := self.board.objective.base) else 0.0)
        self.board.explored(items)
        self._note(held, items)

    def _note(self, nodes: Sequence[Node], items: Sequence[Measured]) -> None:
        """Note figures of a race: what was expected counts as much as their noise leaves it."""
        found = {item.digest: item for item in items}
        self._promises.note_latency(items)
        for node in nodes:
            item, row = found.get(node.candidate.digest), self.board.find(node.candidate)
            if item is None or item.ratio is None:
                node.is_late = True
                if row is not None and self.board[node.candidate].objection:
                    row.drop(self.board[node.candidate].objection)
                continue
            low, high = item.lane.ratio.low, item.lane.ratio.high
            noise = max(0.02, math.log(high / low) / 4) if high > low > 0 else 0.05
            weight = node.spread**2 / (node.spread**2 + noise**2)
            node.item, node.gain = item, -weight * math.log(item.ratio) + (1 - weight) * node.gain
            node.spread = math.sqrt(weight) * noise
            steps = node.candidate.steps
            parent = next((one for one in self._nodes.values() if one.candidate.steps == steps[:-1]), None)
            if parent is not None:
                self._promises.note_ratio(steps[-1], item.ratio * math.exp(parent.gain))
                self.board.timed(item, math.exp(-parent.gain))
                if parent.item is not None:
                    self._gains.setdefault(steps[-1].key, []).append(node.gain - parent.gain)

    def _repair(self, node: Node) -> None:
        assert node.near is not None
        node.tried.add(node.near.attempt.step.key)
        made = self.repairs.repair(node.near)
        if made is not None:
            self._drifts[made.steps[-1].key] = made.drift.relative_error
            gain, _ = self._mending(node)
            self._nodes.setdefault(made.digest, Node(made, node.place, gain, node.spread + 0.1))


if __name__ == "__main__":
    from optim._engine.cli.main import main
    from optim._engine.search.targets import contest

    contest.Beam = AgendaBeam  # type: ignore[misc]
    sys.exit(main())
