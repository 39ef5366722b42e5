"""The beam: chains that go on from stage to stage, always with one that leaves a stage out.

Stages are not independent: a fusion that is slower under the runtime's default settings may be the fastest under
others, and the best quantized model may come from the unfused graph. So every stage is looked at through the first
session settings that the tune stage proposes, and the clock decides at the end.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from optim._engine.search.board import Board
from optim._engine.search.deadline import LATER, Deadline
from optim._engine.search.experience import of_run
from optim._engine.search.explore.expand import Expander
from optim._engine.search.explore.first_looks import FirstLooks
from optim._engine.search.explore.promise import BENEATH, GUESSES, Promises
from optim._engine.search.explore.recall import Recall
from optim._engine.search.measure.clock import Clock
from optim._engine.search.measure.idle_settings import IdleSettings
from optim._engine.search.measure.racing import Races
from optim._engine.search.measure.source_gate import SourceGate
from optim._engine.search.plan import Plan, Planned, legs, slots
from optim._engine.search.rows import NOT_TIMED, OUT_OF_TIME, failing_of, failures, step_of
from optim._engine.search.select.chains import Chains
from optim._engine.search.select.repair import Guess
from optim._engine.search.select.selection import Selection
from optim._engine.search.state import ITSELF, Attempt, Candidate, Measured, StepStatus, unique
from optim._engine.search.taste import FEW, SURPRISE
from optim._engine.search.time_estimate import PassCosts
from optim._engine.search.workbench import Workbench
from optim.errors import ExitStatus, OptimError, some_of
from optim.goal import Basis
from optim.passes import Role, Stage

_SHARE_OF_A_STAGE = 0.85
"""Part of an equal share of the time that is left: the races of later stages have more candidates."""

LEFT_FOR_LATER = 0.75
"""Share of the time for candidates that a stage leaves where a later one promises more: with less, half a minute
quantizes nothing."""


@dataclass(frozen=True, slots=True)
class Grown:
    """The candidates after a stage, those of the beam among them, and by their digest what each goes on from."""

    candidates: Sequence[Candidate]
    parents: Mapping[str, Measured]

    def is_new(self, candidate: Candidate) -> bool:
        """Whether it is another model than what it goes on from."""
        return candidate.digest != self.parents[candidate.digest].digest

    def only_makes_way(self, candidate: Candidate) -> bool:
        """Whether its last step is new and only makes way: not worth a race, it goes on as its parent would."""
        return candidate.steps[-1].role is Role.ENABLE and self.is_new(candidate)

    def promised(self, candidate: Candidate, promises: Promises) -> float:
        """The latency to expect of a candidate, as a ratio to the original."""
        parent = self.parents[candidate.digest]
        gain = promises.gain(candidate.steps[-1]) if self.is_new(candidate) else 0.0
        return (parent.ratio or 1.0) * math.exp(-gain)


def in_turns(
    candidates: Sequence[Candidate], variants: Mapping[str, Sequence[Candidate]], promises: Promises
) -> list[Candidate]:
    """Each, the best first, under its first guess, then the next guess of each, so that little time is well spent.

    The first guess is the first of the settings, unless they were slower before: then each is timed as it is.
    """
    rows = []
    for candidate in candidates:
        first, *others = variants[candidate.digest] or [candidate]
        with_first = [first, candidate] if promises.gain(first.steps[-1]) >= 0 else [candidate, first]
        rows.append(list(unique([*with_first, *others])))
    return [row[i] for i in range(FEW + 1) for row in rows if i < len(row)]


class NamedPassError(OptimError):
    """A pass asked for by name was wrong, broke, or was slower."""


class Beam:
    """One search.

    Attributes:
        start: the original where candidates run: its ratio is 1, unless that is another target than the baseline's.
        repairs: of what is beyond the budget by little.
        recall: what earlier runs found on near models.
    """

    def __init__(self, bench: Workbench, plan: Plan) -> None:
        self._bench = bench
        self._plan = plan
        self._objective = bench.objective
        settings, required = bench.settings, [planned.name for planned in plan.forced()]
        self.board = Board(bench.original, bench.target, self._objective, bench.budget, required)
        races = not self._objective.is_size
        self.time = bench.deadline.of_search(bench.prepared, settings.timeout_s, races=races, must=bool(plan.forced()))
        search_s = self.time.search_s if self._objective.is_latency else math.inf
        calibrating = [one.name for one in plan.passes if one.pass_class.calibrates]
        self._promises = Promises(search_s, PassCosts.known(bench.store), calibrating)
        self._races, self._source = Races(bench), SourceGate(bench, self.board)
        idle = IdleSettings(bench.session_digests, self.time)
        self._chains = Chains(bench.try_step, self.board, self.time, idle)
        self._expander = Expander(bench, self.board, self.time, self._promises, self._chains, self._source)
        self._asker, self.repairs = self._expander.asker, self._expander.repairs
        self.clock = Clock(self._races, self.board, self.time)
        self.recall = Recall(bench.store, bench.say, plan, self._expander, self.clock)
        self.start = Measured(bench.original, ITSELF)
        self._looked: dict[str, Measured] = {}
        self._together: list[Measured] = []
        self._legs = legs(plan)
        self._legs_left = len(self._legs)
        self._note_left_out()

    def recalled(self, targets: Sequence[str] = ()) -> list[Measured]:
        """Returns the chains that won on a near model and won again, to be proven; none if the search is to begin."""
        if not self.may_learn:
            return []
        bench = self._bench
        run = of_run(self.board, bench.settings, bench.registry, bench.prepared, bench.reference, self.time, targets)
        return self.recall.run(run, max(1, len(targets)), fresh=bench.settings.fresh)

    @property
    def may_learn(self) -> bool:
        """Whether records are read and written; other machines have other winners."""
        return self.recall.is_on and self._bench.elsewhere is None

    def selection(self) -> Selection:
        """Returns the selection that decides in the end."""
        return Selection(self.clock, self._chains, self._source, self.repairs)

    def look(self) -> float:
        """Have a first look at what may be tried; returns the best ratio to hope for, also of what is near the budget.

        Raises:
            NamedPassError: a pass that was named does not work on the original.
        """
        for planned in self._plan.forced():  # what cannot work is said at once
            if planned.pass_class.recasts and not self._expander.expand(self._bench.original, [planned]):
                self._fail([planned])
        start = self.start.ratio or 1.0
        looks = FirstLooks(self._expander, self.clock)
        if self._bench.goal.basis is Basis.SIZE:  # asked for, and not what is left where nothing can be timed
            self._looked = {item.digest: item for item in looks.sizes(self._plan)}
            self.board.explored(self._looked.values())
        if self._objective.is_size:
            return start
        if not self._objective.bounds:  # what its kernels make slower may be what keeps within them
            self._expander.kernels.find()
        looked = looks.run(self._plan, start)
        self._looked |= {item.digest: item for item in looked}
        self.board.explored([self.start, *(item for item in looked if item.ratio is not None)])
        if not self._objective.is_latency:
            return start
        self._promises.note_latency([self.start, *looked])
        self._together = looks.together
        self.board.explored(self._together)
        return start * math.exp(-self._promises.best_gain)

    def search(self) -> list[Measured]:
        """Go from stage to stage after :meth:`look`; returns what held, with the original unless a pass was named.

        Raises:
            NamedPassError: a pass that was named does not hold.
        """
        beam, ranking, goal = [self.start], [self.start], self._objective.goal
        looked = list(self._looked.values()) if goal.long_rounds or goal.basis is Basis.SIZE else []
        for place, (stage, passes) in enumerate(self._legs):
            self._legs_left = len(self._legs) - place
            if self._is_over(passes):
                run_out((one for _, leg in self._legs[place:] for one in leg), self.board)
                looked = [*self._looked.values(), *self._together]
                break
            if place and self._legs[place - 1][0] is stage and not passes[0].forced:
                # more settings for the best chain alone, each for itself: the race drops what is beaten
                ranking = self.board.joined(self._stage(stage, passes, [ranking[0]]), ranking)
            else:
                ranking = self._stage(stage, passes, beam)
            if not ranking:
                self._fail(passes)
            self._promises.note_latency(ranking)
            # what stages come to is not compared with it: it has a lossy step, and they may find better fusions
            of_stage = [one for one in self._together if one.candidate.steps[-1].stage is stage]
            ranking = self.board.joined(ranking, of_stage)
            beam = self._select(ranking, beam, stage)
        self._bench.teller.stage("", lambda: self.time.left)
        ranking = self.board.joined(ranking, looked)
        if self._objective.is_size:
            return self._repaired_on(ranking)
        return self._nearer(ranking) if self._objective.is_accuracy else ranking

    def _repaired_on(self, ranking: list[Measured]) -> list[Measured]:
        """Models found for size, and a smaller one that a repair makes in the time left: no race waits for it."""
        best, required = ranking[0], {planned.name for planned in self._plan.forced()}

        def is_wanted(one: Guess) -> bool:
            there = {one.planned.name, *(step.pass_name for step in one.parent.steps)}
            return one.made_bytes < best.candidate.size_bytes and there >= required

        found = self.repairs.repair_on(is_wanted)
        return ranking if found is None else self.board.ranked([Measured(found), *ranking])

    def _nearer(self, ranking: list[Measured]) -> list[Measured]:
        """With models that use up what a bound leaves: the nearest within the bounds, with fewer lossy nodes."""
        best = ranking[0]
        if not best.candidate.is_lossy or self._objective.objection(best):
            return ranking
        with self.time.lending(proof=False):
            found = self.repairs.nearer(best.candidate, self._fits)
        return self.board.joined(ranking, map(Measured, found))

    def _fits(self, candidate: Candidate) -> bool:
        """Whether a model keeps within the bounds, timed where a bound needs it."""
        item = Measured(candidate)
        if any(bound.figure != "size" for bound in self._objective.bounds):
            item = next(iter(self.clock.explore([candidate], 0.0, 1)), item)
            self.board.explored([item])
        return not self._objective.objection(item)

    def leave(self) -> None:
        """Have the rows of all passes say that there was no time for them."""
        run_out(self._plan.passes, self.board)

    def _is_over(self, passes: Sequence[Planned]) -> bool:
        """Whether the time is over before a stage, and first looks found something that may be delivered."""
        left = self.time.before(LATER) if self._objective.goal.basis is Basis.SIZE else self.time.to_explore
        return bool(self._looked) and left <= 0 and not any(planned.forced for planned in passes)

    def _stage(self, stage: Stage, passes: Sequence[Planned], beam: Sequence[Measured]) -> list[Measured]:
        """Grows the beam by a stage and races what is new; returns all of it, the best first.

        Nothing where no candidate with a pass that was named holds.
        """
        self._expander.begin(str(stage), f"stage {stage}")
        self._asker.require_kept_nodes([parent.candidate for parent in beam], passes)
        later = [planned for _, leg in self._legs[len(self._legs) - self._legs_left + 1 :] for planned in leg]
        share = share_of_later(passes, later, self._promises, for_size=self._objective.is_size)
        with self.time.leaving(share):
            grown = self._grow(passes, beam)
        if not grown.candidates:  # what was named did not hold in its share of the time
            forced = [planned.name for planned in passes if planned.forced]
            found = self.repairs.repair_on(lambda one: one.planned.name in forced)
            if found is None:
                return []
            grown = Grown([found], {found.digest: self.start})
        if self._objective.is_size:
            sized = list(map(Measured, grown.candidates))
            self.board.explored(sized)
            return self.board.ranked(sized)
        if not any(map(grown.is_new, grown.candidates)):
            return [grown.parents[one.digest] for one in grown.candidates]
        best = self._race(grown, beam, stage)
        self._write_rows(grown, best)
        return self.board.ranked(list(best.values()))

    def _grow(self, passes: Sequence[Planned], beam: Sequence[Measured]) -> Grown:
        """Tries the passes of a stage on every candidate of the beam."""
        first = slots(passes)[0]
        if first[0].pass_class.role is not Role.ENABLE and len(beam) > 1:
            self._asker.ask_side_by_side([parent.candidate for parent in beam], passes)
        pools = [(parent, self._expander.expand(parent.candidate, passes)) for parent in beam]
        candidates = unique([candidate for _, pool in pools for candidate in pool])
        return Grown(candidates, {candidate.digest: parent for parent, pool in reversed(pools) for candidate in pool})

    def _race(self, grown: Grown, beam: Sequence[Measured], stage: Stage) -> dict[str, Measured]:
        """Each candidate, by its digest, with its best time over the session settings it is looked at through."""
        if self.time.is_up:
            return self._untimed(grown, beam)
        variants = self._variants(grown.candidates, stage)
        racing = [one for one in grown.candidates if one.steps and not grown.only_makes_way(one)]
        racing.sort(key=lambda one: (grown.promised(one, self._promises), -len(one.steps)))
        lanes = in_turns(racing, variants, self._promises)
        lanes = [lane for lane in lanes if lane.steps and not self.clock.is_beaten(lane)]
        owner = {lane.digest: one for one in grown.candidates for lane in (one, *variants[one.digest])}
        least = 2 * sum(map(grown.is_new, racing))  # each new graph as it is, and under its first settings
        measured = self.clock.explore(lanes, _SHARE_OF_A_STAGE / self._legs_left, least)
        self.board.explored(measured)
        for lane in lanes:  # a graph that was wrong under every setting it was looked at with
            score = self.clock.board[owner[lane.digest]]
            score.objection = score.objection or self.clock.board[lane].objection
        self._note_settings(measured, owner)
        best = self._best_by_candidate(measured, owner, beam)
        for one in grown.candidates:
            if one.steps and one not in racing and one.digest not in best:
                best[one.digest] = replace(grown.parents[one.digest], candidate=one)
        return best

    def _note_settings(self, measured: Sequence[Measured], owner: Mapping[str, Candidate]) -> None:
        """Notes what the settings that graphs were looked at through gained, for the tune stage."""
        plain = {item.digest: item.ratio for item in measured}
        for item in measured:
            if item.digest != owner[item.digest].digest:
                self._note_gain(item.candidate, item.ratio, plain.get(owner[item.digest].digest))

    def _untimed(self, grown: Grown, beam: Sequence[Measured]) -> dict[str, Measured]:
        """Each candidate as its first look left it, or not timed at all, where only the last race fits in."""
        there = {one.digest for one in grown.candidates}  # without the beam, where a pass of the stage was named
        best = {parent.digest: parent for parent in beam if parent.digest in there}
        new = {one.digest: self._looked.get(one.digest, Measured(one)) for one in grown.candidates}
        return {**new, **best}

    def _variants(self, candidates: Sequence[Candidate], stage: Stage) -> dict[str, list[Candidate]]:
        """Each candidate, by its digest, under the first settings that the tune stage proposes for it."""
        tune = self._plan.stages.get(Stage.TUNE, ())[:1] if stage is not Stage.TUNE else ()
        looking = [planned for planned in tune if planned.pass_class.session_only]
        if looking:
            self._asker.ask_side_by_side(candidates, looking)

        def variants(one: Candidate) -> list[Candidate]:
            return self._expander.session_variants(one, tune, FEW)

        found = self._bench.runner.side_by_side(variants, candidates)
        return {one.digest: of_one for one, of_one in zip(candidates, found, strict=True)}

    def _best_by_candidate(
        self, measured: Sequence[Measured], owner: dict[str, Candidate], beam: Sequence[Measured]
    ) -> dict[str, Measured]:
        """Each graph with its best time over session settings; the graph itself goes on, not the settings."""
        best: dict[str, Measured] = {}
        for parent in beam:
            if parent.digest in owner:
                best[parent.digest] = parent
        for item in measured:
            candidate = owner[item.digest]
            known = best.get(candidate.digest)
            if known is None or known.ratio is None or self.board.figure(item) < self.board.figure(known):
                drift = item.candidate.drift if item.digest == candidate.digest else candidate.drift
                best[candidate.digest] = replace(item, candidate=replace(candidate, drift=drift))
        return best

    def _write_rows(self, grown: Grown, best: dict[str, Measured]) -> None:
        ratios = {item.candidate.chain: item.ratio for item in best.values()}
        for candidate in grown.candidates:
            attempt = self.board.find(candidate)
            if attempt is None or not grown.is_new(candidate):
                continue
            score = self.clock.board[candidate]
            without = ratios.get(candidate.chain[:-1], grown.parents[candidate.digest].ratio)
            if candidate.digest in best and best[candidate.digest].ratio is None:
                attempt.run_out(NOT_TIMED)
            elif candidate.digest in best:
                self.board.timed(best[candidate.digest], without)
                self._note_gain(candidate, best[candidate.digest].ratio, without)
            elif score.objection:
                attempt.drop(score.objection)
            elif score.ratios and score.result is not None:
                attempt.timing, attempt.parent_ratio = score.result.ratio, without
            else:
                attempt.run_out(NOT_TIMED)

    def _note_gain(self, candidate: Candidate, ratio: float | None, without: float | None) -> None:
        """Notes what the last step of a chain gained, for other chains."""
        if self._objective.is_latency and ratio and without:
            self._promises.note_ratio(candidate.steps[-1], ratio / without)

    def _select(self, ranking: Sequence[Measured], beam: Sequence[Measured], stage: Stage) -> list[Measured]:
        """The best chains, and with them the best that leaves the stage out."""
        ready = [
            item for item in ranking if not item.candidate.steps or item.candidate.steps[-1].role is not Role.ENABLE
        ]
        chosen = ready[: self._bench.settings.beam]
        before = {parent.digest for parent in beam}
        if all(item.digest not in before for item in chosen):
            chosen += [item for item in ranking if item.digest in before][:1]
        enabling = [item for item in ranking if item.candidate.steps and item.candidate.steps[-1].role is Role.ENABLE]
        if stage is not Stage.POST_PROCESS:
            chosen += [one for one in enabling[:1] if one not in chosen and one.candidate.steps[-1].stage is stage]
        return within_reach(self.board, chosen)

    def _fail(self, passes: Sequence[Planned]) -> None:
        first = failing_of([planned for planned in passes if planned.forced] or passes, self.board.attempts)
        name = first.name
        raise NamedPassError(
            "pass-did-not-hold",
            f"{name} {first.why}, but it failed",
            failures(self.board.attempts, name),
            f"leave it out, change its options (optim passes show {name}), or allow more drift with --max-drift",
            status=ExitStatus.NOT_HELD,
        )

    def _note_left_out(self) -> None:
        for left_out in self._plan.left_out:
            attempt = self.board.open(step_of(left_out.offered), self._bench.original)
            attempt.settle(StepStatus.SKIPPED, left_out.reason)
            attempt.not_here = left_out.not_here


def within_reach(board: Board, items: Iterable[Measured]) -> list[Measured]:
    """Returns those that may lead the next stage: with a goal of long rounds none that is far behind the best.

    A single call may gain in one stage what it lost in another. An answer is hundreds of calls, and a candidate
    takes as long to make and time as many others. What has no figure may be anything.
    """
    items = list(items)
    if not board.objective.goal.long_rounds:
        return items
    figures = [board.figure(item) for item in items]
    furthest = SURPRISE * min(figures, default=math.inf)
    pairs = zip(items, figures, strict=True)
    return [item for item, figure in pairs if figure <= furthest or math.isinf(figure)]


def share_of_later(own: Sequence[Planned], later: Sequence[Planned], promises: Promises, *, for_size: bool) -> float:
    """The share of the time for candidates that a stage leaves to those after it, 0..1.

    If size is the goal, lossy stages have it: they make a model small. Else stages have it that gain more than this one
    and start anew from each fusion.
    """
    if for_size:
        lossy_later = any(planned.pass_class.lossy for planned in later)
        return LEFT_FOR_LATER if lossy_later and not any(planned.pass_class.lossy for planned in own) else 0.0
    if any(planned.forced for planned in own):
        return 0.0
    anew = [one for one in later if one.offered.stage in BENEATH and promises.holds(one.name)]
    best = max(map(promises.of_pass, own), default=0.0)
    return LEFT_FOR_LATER if max(map(promises.of_pass, anew), default=0.0) > best else 0.0


def untried(attempts: Iterable[Attempt]) -> list[str]:
    """Names of passes that may make a model better, and that no candidate was made by for want of time.

    Those of the stage that promises most come first; settings are left out, since they promise least.
    """
    rows = [one for one in attempts if one.step.role is Role.IMPROVE and one.step.stage is not Stage.TUNE]
    made = {
        one.step.pass_name
        for one in rows
        if one.drift is not None or one.status in (StepStatus.NOT_APPLICABLE, StepStatus.FAILED)
    }
    late = {one.step.pass_name: one.step.stage for one in rows if one.out_of_time and one.step.pass_name not in made}
    return sorted(late, key=lambda name: (-GUESSES.get(late[name], 0.0), name))


def why_no_more(names: Sequence[str], time: Deadline) -> str:
    """How a verdict goes on where passes were not tried once; empty where all were."""
    if not names:
        return ""
    enough_s = 60 * math.ceil((time.announced_s + len(names) * time.try_s) / 60)
    return f"; no time for a candidate of {some_of(names, 3)} (about --search-seconds {enough_s} would do)"


def run_out(passes: Iterable[Planned], board: Board) -> None:
    """Have what was not tried say that time ran out, and passes of which nothing was."""
    open_rows = [one for one in board.attempts if one.status is StepStatus.SKIPPED and not one.reason]
    for attempt in (*(one for one in open_rows if one.drift is None), *board.rows_of_untried(passes)):
        attempt.run_out(OUT_OF_TIME)
