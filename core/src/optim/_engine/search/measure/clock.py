"""Races of the search: which candidates are right, and which are faster, in heats that fit into memory and time.

How long a race looks goes by what the deadline leaves, while exploring and in the proof.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from optim._engine.gate.budget import Objection
from optim._engine.search.board import Board
from optim._engine.search.deadline import LEAST_S, Deadline
from optim._engine.search.lane_costs import AGAIN_LANES, LEAST_ROUNDS
from optim._engine.search.measure.lane_figures import expected_of, joined
from optim._engine.search.measure.race_job import MOST_ROUNDS, ROUNDS, WIDTH, Effort
from optim._engine.search.measure.racing import Races, Wanted, late_text
from optim._engine.search.state import Candidate, LaneResult, Measured
from optim._engine.search.taste import DIFFER
from optim.goal import Basis

LOOK_S = 1.0
"""The shortest race while exploring: with less, five rounds of a few lanes do not fit."""

_OPENING_SHARE = 0.4
"""Part of a lane's time that opening takes: it is not part of the race itself."""

_GAIN_WIDTH = 0.1
"""How wide the best interval may be, as a share of the gain. At a ratio of 0.5 that is 5 hundredths: two processes of
one graph differ by some."""

_FEWEST_ROUNDS = 2
"""Without which there is no figure: of one round nobody knows how far it is off."""

LEAST_LANES = 5
"""Looked at whatever the time: the best of fewer says little about a stage. Of slow models two are: five took 79 s of
300 beside sixteen other programs."""

_ONCE = (
    "no time left to time the result again in fresh processes; "
    "the interval does not include differences between processes"
)

NOT_TIMED = "the run ended before every candidate that may be faster was timed: give more with --search-seconds"

SIZE_ALONE = "no time left to time the smaller result: its latency is unknown"


class Clock:
    """Times candidates against the original within the search's time.

    Attributes:
        proves: whether that was a race of the end.
    """

    def __init__(self, races: Races, board: Board, time: Deadline) -> None:
        self.races, self.board, self.time = races, board, time
        self.proves = False
        self._goal = board.objective.goal
        self._decides = self._goal.basis in (Basis.CALLS, Basis.CLOCK)

    def is_beaten(self, candidate: Candidate) -> bool:
        """Whether an earlier race has shown these very settings to be clearly slower than others of the same graph."""
        if self._goal.basis not in (Basis.CALLS, Basis.SIZE):
            return False
        own = self.board[candidate].ratios
        return bool(own) and own[-1] > DIFFER * self.board.best_of_graph(candidate)

    def explore(self, candidates: Sequence[Candidate], share: float, least: int) -> list[Measured]:
        """A quick look at many candidates, best guess first.

        Args:
            candidates: the most promising first; those for which there is no time are left out of the answer.
            share: of the search time that is left, 0..1.
            least: so many are looked at whatever the share, as far as half of all the time that is left is enough for
                them; :data:`LEAST_LANES` whatever the time, and two of slow models.

        Returns:
            Those that hold, in the order of ``candidates``; :attr:`board` says why others do not.
        """
        seconds = self.time.to_explore * share
        answered = [one for one in candidates if not self.board[one].is_late]
        chosen = answered[: self._lanes(share, least)]
        found: list[Measured] = []
        for heat in self._heats(chosen):
            memory_only = self._goal.basis in (Basis.MEMORY, Basis.ACCURACY)
            effort = look(self.time, seconds * len(heat) / len(chosen), len(heat), memory_only=memory_only)
            if self._goal.long_rounds:  # each model takes seconds, or tens of them
                effort = replace(effort, least_rounds=_FEWEST_ROUNDS)
            found += self.measure(heat, effort, Wanted(self.races.prepared.explored, gated=True))
            self.time.lanes.note_lanes(base.open_s if (base := self.board.objective.base) else 0.0)
        return found

    def _heats(self, candidates: Sequence[Candidate]) -> list[Sequence[Candidate]]:
        """Candidates in groups that may be open together."""
        width = self.races.at_once
        return [candidates[start : start + width] for start in range(0, len(candidates), width)]

    def _lanes(self, share: float, least: int) -> int:
        """How many lanes there is time for; for its arguments see :meth:`explore`."""
        costs, left_s = self.time.lanes, self.time.to_explore
        fewest = AGAIN_LANES if costs.is_slow else LEAST_LANES
        least = min(least, max(fewest, int(left_s / 2 / costs.lane_s)))
        return max(least, int(left_s * share / costs.lane_s))

    def first_look(
        self, candidates: Sequence[Candidate], seconds: float, *, on_all_samples: bool = False
    ) -> list[Measured]:
        """A few rounds on one sample for candidates that were compared already, within the budget or not.

        Calls alone are timed, also where the goal has a clock of its own: one round of whole answers, of requests in
        flight or of starts takes seconds for each model. With ``on_all_samples`` they are compared before; one that is
        not right is not timed, and :attr:`board` says why. Returns those that run; nothing is decided by it.
        """
        if not candidates:
            return []
        self.races.say(f"timing {_models(candidates)} against the original")
        samples = self.races.prepared.compared if on_all_samples else ()
        found: list[Measured] = []
        for heat in self._heats(candidates):
            effort = first_look(self.time, seconds * len(heat) / len(candidates))
            wanted = Wanted(samples, gated=bool(samples), plain=True)
            base, results = self._race(heat, effort, wanted)
            self.time.lanes.note_lanes(base.open_s)
            for one, result in zip(heat, results, strict=True):
                if (expected := expected_of(self._goal, result, base)) is not None:
                    self.board[one].hoped = expected
                if not (samples and self._objects(one, result)) and result.ratio is not None:
                    found.append(Measured.of(one, result))
        return found

    def prove(self, candidates: Sequence[Candidate]) -> list[Measured]:
        """Fresh rounds for what may be delivered, compared on every sample that the gate uses."""
        effort, samples = final(self.time, len(candidates)), self.races.prepared.compared
        effort, self.proves = replace(effort, decides=self._decides), True
        return self.measure(candidates, effort, Wanted(samples, measure_task=True, gated=True, proves=True))

    def measure(self, candidates: Sequence[Candidate], effort: Effort, wanted: Wanted) -> list[Measured]:
        """One race; a candidate that does not run, or is not right with its session settings, has an objection."""
        self.races.say(f"timing {_models(candidates)} against the original")
        base, results = self._race(candidates, effort, wanted)
        found = []
        for candidate, result in zip(candidates, results, strict=True):
            score = self.board[candidate]
            score.result, score.base, score.out_of_time = result, base, result.out_of_time
            if not result.late:
                score.objection = Objection()
            score.broken = None
            if self._objects(candidate, result):
                continue
            if result.ratio is None or result.ratio.rounds < _FEWEST_ROUNDS:
                score.out_of_time = True
                self.time.note(NOT_TIMED)
                continue
            score.ratios.append(result.ratio.value)
            found.append(Measured.of(candidate, result))
            self.races.teller.measured(found[-1].ratio, found[-1].candidate.drift.relative_error)
        return found

    def again(self, items: Sequence[Measured]) -> list[Measured]:
        """Times the same models in fresh processes: the same graph differs by some per cent from one to the next.

        Returns:
            The figures of both races together, see :func:`~optim._engine.search.measure.lane_figures.joined`. What does
            not run a second time has an objection.
        """
        if self.time.spare_s <= self.time.lanes.again_s:
            self.time.note(_ONCE)
            return list(items)
        self.races.say(f"timing {_models(items)} again in fresh processes")
        effort = replace(again(self.time, len(items)), decides=self._decides)
        _, results = self.races.race([item.candidate for item in items], effort, Wanted(proves=True))
        found = []
        for item, second in zip(items, results, strict=True):
            score = self.board[item.candidate]
            if second.out_of_time or (second.ratio is not None and second.ratio.rounds < _FEWEST_ROUNDS):
                self.time.note(_ONCE)
                found.append(item)
                continue
            if second.failure or second.ratio is None or score.result is None:
                score.objection = Objection(f"in a second process: {second.failure or 'it was not timed'}")
                continue
            score.result = joined(score.result, second)
            found.append(replace(item, lane=score.result))
        return found

    def beyond(self, candidates: Sequence[Candidate]) -> list[LaneResult]:
        """The figures of candidates that are beyond the budget, on all samples; of some where time is short."""
        if not self.board.target.timed:
            return [self.races.check(candidate) for candidate in candidates]
        candidates, self.proves = candidates[: self.time.lanes_at_the_end(len(candidates))], True
        wanted = Wanted(self.races.prepared.compared, measure_task=True)
        return self._race(candidates, aside(self.time, len(candidates)), wanted)[1]

    def check(self, candidate: Candidate) -> Measured | None:
        """Whether a candidate is right on a target that cannot be timed; :attr:`board` says why not."""
        self.races.say("running the result on every sample")
        result = self.board[candidate].result = self.races.check(candidate)
        return None if self._objects(candidate, result) else Measured.of(candidate, result)

    def _race(
        self, candidates: Sequence[Candidate], effort: Effort, wanted: Wanted
    ) -> tuple[LaneResult, list[LaneResult]]:
        """Races candidates, and keeps the figures of the original if it was opened before the race was over.

        A candidate that had not come back once by then is noted: another race of it would end the same way.
        """
        base, results = self.races.race(candidates, effort, wanted)
        if self.board.objective.base is None or not base.out_of_time:
            self.board.objective.base = base
        for candidate, result in zip(candidates, results, strict=True):
            if result.late:
                self.board[candidate].is_late = True
                self.board[candidate].objection = Objection(late_text(result.late))
        return base, results

    def _objects(self, candidate: Candidate, result: LaneResult) -> bool:
        """Whether it does not run, or is not right; the reason is noted."""
        score, objection = self.board[candidate], Objection(result.failure)
        ready, budget = result.ready, self.board.budget
        if ready is not None and not objection:
            lossy = candidate.is_lossy or not self.board.target.exact
            objection = budget.objection(ready.comparisons, lossy, ready.task)
            if objection:
                score.broken = candidate.compared(ready)
            else:
                text = budget.batch_objection(ready.batch) or budget.unseen_objection(ready.unseen, lossy)
                objection = Objection(text)
        if not objection and result.throughput is not None:
            objection = Objection(result.throughput.objection)
        if objection:
            score.objection = objection
        return bool(objection) or score.is_late


def _models(items: Sequence[object]) -> str:
    return f"{len(items)} model{'s' if len(items) > 1 else ''}"


def look(time: Deadline, seconds: float, lanes: int, *, memory_only: bool = False) -> Effort:
    """A quick look at some lanes in ``seconds``, opening them included; memory is known when a lane is open."""
    seconds = max(LOOK_S, seconds - _OPENING_SHARE * time.lanes.lane_s * lanes)
    effort = _look(time, seconds, one_sample=time.lanes.is_slow)
    return replace(effort, least_rounds=LEAST_ROUNDS, most_rounds=LEAST_ROUNDS, drop=False) if memory_only else effort


def first_look(time: Deadline, seconds: float = 2 * LOOK_S) -> Effort:
    """A few rounds on one sample."""
    return _look(time, min(seconds, 2 * LOOK_S), one_sample=True)


def _look(time: Deadline, seconds: float, *, one_sample: bool) -> Effort:
    return Effort(
        time.lanes.pace * seconds,
        least_rounds=LEAST_ROUNDS if one_sample else ROUNDS // 2,
        most_rounds=MOST_ROUNDS // 2,
        width=2 * WIDTH,
        gain_width=2 * _GAIN_WIDTH,
        fresh=False,
        most_samples=1 if one_sample else None,
        whole_s=time.for_look,
    )


def final(time: Deadline, lanes: int) -> Effort:
    """Fresh rounds for so many models that may be delivered."""
    costs, effort = time.lanes, aside(time, lanes)
    again_s = 0.0 if costs.is_long else costs.again_s
    left_s = time.spare_s - costs.opened_s(lanes) - effort.seconds
    return _deciding(effort, left_s - (again_s if left_s > again_s else 0.0))  # if there is time for one, it has all


def again(time: Deadline, lanes: int) -> Effort:
    """Fresh rounds in fresh processes, for what contends; they end when the run does."""
    effort = aside(time, lanes)
    return _deciding(replace(effort, whole_s=min(effort.whole_s, time.spare_s)), time.spare_s)


def aside(time: Deadline, lanes: int) -> Effort:
    """Fresh rounds on all samples, for what is beyond the budget too."""
    costs, seconds = time.lanes, time.lanes.race_s
    return Effort(
        costs.pace * seconds,
        least_rounds=min(ROUNDS, max(LEAST_ROUNDS, costs.rounds_in(seconds, lanes + 1))),
        gain_width=_GAIN_WIDTH,
        drop=lanes > 1,
        open_timeout_s=time.timeout_s,
        patience_s=costs.pace * seconds / 2,
        fresh=costs.programs and (time.must or costs.opened_s(lanes) <= time.end_s),
        most_samples=1 if costs.is_long else None,
        whole_s=math.inf if time.must else time.end_s,
    )


def _deciding(effort: Effort, left_s: float) -> Effort:
    """The same that may go on for an answer while so many seconds last; without an end, those of a short run."""
    return replace(effort, decide_s=max(effort.seconds, left_s if math.isfinite(left_s) else LEAST_S))
