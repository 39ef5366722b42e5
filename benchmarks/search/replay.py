"""A run again, from its trace: the search of today decides, and every job is answered from the file in simulated time.

Nothing is run and no model is read. A job that the trace has takes the seconds that it took. One that it lacks takes
the mean of its kind in the trace, fails, and its seconds count as unknown. A race that was not run as it is asked for
(other lanes, or more or less time) is put together from the rounds of its lanes in other races; a lane that was in
none has no figure, and its share of the seconds is unknown. With a seed, the rounds of all races are drawn anew.
"""

from __future__ import annotations

import bisect
import contextlib
import heapq
import itertools
import json
import math
import random
import tempfile
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

from trace_file import Trace

from optim._engine.feeds import traces
from optim._engine.jobs import prepare
from optim._engine.jobs.job import Job
from optim._engine.jobs.runner import Runner
from optim._engine.plugins import versions
from optim._engine.plugins.registry import Registry
from optim._engine.reports.outcome import Outcome
from optim._engine.runs import execute
from optim._engine.search import deadline, experience, restore, workbench
from optim._engine.search.board import Board
from optim._engine.search.experience import Experience
from optim._engine.search.explore import beam, recall
from optim._engine.search.explore.beam import Beam
from optim._engine.search.lane_costs import LEAST_ROUNDS
from optim._engine.search.measure import race_job
from optim._engine.search.measure.lane_figures import paired_ratio
from optim._engine.search.measure.race_job import Effort, Leader, next_look_after
from optim._engine.search.settings import AUTO, RunSettings, SearchSeconds
from optim._engine.search.state import LaneResult, Measured
from optim._engine.search.targets import contest
from optim._engine.search.taste import WORTH
from optim._engine.search.time_estimate import PassCosts
from optim._engine.store import Store
from optim._engine.trace import STORE, key_of, short_name
from optim.errors import ExitStatus, OptimError
from optim.goal import Ratio
from optim.isolation import environments
from optim.jobs.process import WorkerFailed
from optim.jobs.wire import from_wire, to_wire
from optim.workplace import Done, Work

MOST_UNKNOWN = 0.1
"""Share of unknown seconds from which a replay does not count."""

_AT_ONCE = 2
"""Jobs that the recorded run did at the same time: see ``workbench._AT_ONCE``."""

_RACE = short_name(race_job.MODULE)

_SAME_EFFORT = 0.8
"""A race that has at least so much of the recorded one's time, and at most the inverse, is the recorded one."""


class Clock:
    """Simulated seconds; it goes on only where a job says so."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        """Read it."""
        return self.seconds


class InTurn(Executor):
    """Side by side in simulated time; in truth one thread runs until it waits for a job, then the one that is due next.

    Args:
        clock: of the replay.
        next_begin: when, as recorded, what comes next began.
    """

    def __init__(self, clock: Clock, next_begin: Callable[[], float]) -> None:
        self._clock, self._next_begin = clock, next_begin
        self._due: list[tuple[float, int, threading.Event]] = []
        self._back, self._mine = threading.Event(), threading.local()
        self._order = itertools.count()

    @property
    def is_on(self) -> bool:
        """Whether this thread is one of several."""
        return hasattr(self._mine, "go")

    def wait_until(self, seconds: float) -> None:
        """Have the clock say so, after what the others do until then."""
        if self.is_on:
            heapq.heappush(self._due, (seconds, next(self._order), self._mine.go))
            self._mine.go.clear()
            self._back.set()
            self._mine.go.wait()
        self._clock.seconds = max(self._clock.seconds, seconds)

    def map(self, function: Callable[..., Any], *items: Iterable[Any], **_: Any) -> Iterator[Any]:
        """As ``Executor.map``; an item begins when one of two threads is free."""
        given = list(zip(*items, strict=True))
        if self.is_on or len(given) < 2:
            return iter([function(*one) for one in given])
        found: list[Future[Any]] = [Future() for _ in given]
        left, alive = list(range(len(given))), 0

        def work(place: int, go: threading.Event) -> None:
            self._mine.go = go
            try:
                found[place].set_result(function(*given[place]))
            except BaseException as error:
                found[place].set_exception(error)
            self._back.set()

        while left or alive:
            begin = self._next_begin() if left and alive < _AT_ONCE else math.inf
            if begin < math.inf and (not self._due or begin <= self._due[0][0]):
                self._clock.seconds = max(self._clock.seconds, begin)
                place, go = left.pop(0), threading.Event()
                resume: Callable[[], None] = threading.Thread(target=work, args=(place, go), daemon=True).start
            else:
                seconds, _number, go = heapq.heappop(self._due)
                self._clock.seconds = max(self._clock.seconds, seconds)
                resume = go.set
            self._back.clear()
            resume()
            self._back.wait()
            alive = len(self._due)  # who has ended waits for nothing
        self._clock.seconds = max(self._clock.seconds, self._next_begin())
        return iter([one.result() for one in found])


_source_digest, _environment = cache(versions._digest_of), cache(environments.installed_environment)
"""Answers about the files of plugins. They stay the same during replays, and a run asks for them a hundred times."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """What a replay comes to.

    Attributes:
        outcome: the verdict of today's search.
        seconds: simulated, of the whole run.
        unknown: share of them that the trace says nothing of.
        lacks: names of the jobs that it has no answer for.
        found: what was timed and kept within the budget as far as it was compared: seconds, digest and ratio.
        estimated: share of the seconds whose answers were estimated: see ``completed``.
        likely: latency of what is delivered to the original's, by all traces; None if they say nothing of it.
    """

    outcome: Outcome
    seconds: float
    unknown: float
    lacks: tuple[str, ...]
    found: tuple[tuple[float, str, float], ...] = ()
    estimated: float = 0.0
    likely: float | None = None

    @property
    def counts(self) -> bool:
        """Whether the trace knows enough."""
        return self.unknown <= MOST_UNKNOWN


class FromTrace:
    """A workplace that answers from a trace.

    Args:
        trace: of a run.
        store: an empty one, whose models are empty files.
        seed: draws the rounds of races anew; None: as recorded.
        others: traces of the same model, which answer what the first does not.
        in_order: whether an action begins no sooner than it was recorded, after what the search itself took.
    """

    libraries: Mapping[str, str] = {}
    at_once = _AT_ONCE
    machine = "trace"
    estimated_s = 0.0

    def __init__(
        self, trace: Trace, store: Store, seed: int | None = None, others: Sequence[Trace] = (), in_order: bool = True
    ) -> None:
        self.now = Clock()
        self.report = trace.header["machine"]
        self.available_bytes = (self.report["memory_bytes"] or 1 << 34) // 2
        self.unknown_s = 0.0
        self.lacks: list[str] = []
        self._seed, self._draws = seed, 0
        self._store = store
        self._began = self.now.seconds - trace.header["start"]["seconds"]
        self.in_turn = InTurn(self.now, self._next_begin)
        self._begins = sorted(self._began + action["at"] for action in trace.actions if in_order)
        own, others_say = _said(trace.actions), _said([one for other in others for one in other.actions])
        self._found = {**_at_once(others_say.found), **(own.found if in_order else _at_once(own.found))}
        self._lanes, self._usual_s = {**others_say.lanes, **own.lanes}, {**others_say.usual_s, **own.usual_s}
        self._base = own.base or others_say.base

    def likely(self, digest: str) -> float | None:
        """The latency of a model to the original's, by all traces; a trace alone does not say."""
        return None

    def working(self) -> contextlib.AbstractContextManager[None]:
        """Nothing has to be begun, and nothing ended."""
        return contextlib.nullcontext()

    def do(self, work: Work) -> Done:
        """The answer that the trace has.

        Raises:
            WorkerFailed: as recorded, or because the trace has none.
        """
        is_look = short_name(work.module) == _RACE and work.request["effort"] is None
        is_race = short_name(work.module) == _RACE and not is_look
        action = self.action(work.module, work.request)
        if is_look and action is None:
            return self._looked(work.request)
        if is_race and (action is None or ("failed" not in action and not self._is_as_recorded(action, work.request))):
            return self._raced(work.request, action)
        if action is None:
            self._pass_unknown(work.module)
            raise WorkerFailed("the trace has no answer to it", "unknown")
        self.take(action)
        events = self._here(action["events"])
        if "failed" in action:
            failed, error = action["failed"], action["failed"]["error"]
            error = error and OptimError(**{**error, "status": ExitStatus(error["status"])})
            failure = WorkerFailed(failed["reason"], failed["kind"], "", error, failed["doing"])
            failure.events = events
            raise failure
        return Done(self._here(action["answer"]), events)

    def _is_as_recorded(self, action: dict[str, Any], request: Any) -> bool:
        """Whether a race has about the time that it had in the trace, and its rounds are not drawn anew."""
        efforts = (request["effort"], action["request"]["effort"])
        ours, theirs = (min(float(one["seconds"]), float(one["whole_s"])) for one in efforts)
        return self._seed is None and _SAME_EFFORT * theirs <= ours <= theirs / _SAME_EFFORT

    def take(self, action: dict[str, Any]) -> None:
        """Let the seconds of an action pass."""
        began = self._began + action["at"]
        with contextlib.suppress(ValueError):
            self._begins.remove(began)
        self.in_turn.wait_until(max(self.now.seconds, began) + action["seconds"])
        if not self.in_turn.is_on:
            self.now.seconds = self._next_begin()

    def _next_begin(self) -> float:
        """When the next action begins: after the time that the search itself takes, as recorded; or now."""
        place = bisect.bisect_left(self._begins, self.now.seconds)
        if self._seed is None and not self.lacks and place < len(self._begins):
            return self._begins[place]
        return self.now.seconds

    def action(self, name: str, request: Any) -> dict[str, Any] | None:
        """The next action of this work, the last one again where there is no other; None: the trace has none."""
        known = self._found.get(key_of(name, self._nowhere(to_wire(request))), [])
        return known.pop(0) if len(known) > 1 else known[0] if known else None

    def _raced(self, request: Any, action: dict[str, Any] | None) -> Done:
        """A race from the recorded rounds of its lanes, in simulated time, until its own rule says that it is over.

        A lane that had no figure in time in the recorded race (``action``), and was in no other, has none again.
        """
        effort = from_wire(Effort, request["effort"])
        recorded = [self._lane(lane) for lane in request["lanes"]]
        was_late = [one["out_of_time"] for one in action["answer"]["lanes"]] if action and "answer" in action else []
        base = self._here(self._base or to_wire(LaneResult()))
        lanes = [_Drawn(self._here(lane), self._random()) for lane in recorded if lane is not None]
        opening_s = base["open_s"] * (1 + len(recorded))
        usual_s = base["round_s"] or self._usual_s.get(_RACE, 1.0) / max(1, effort.least_rounds)
        late = sum(lane is None and is_late for lane, is_late in zip(recorded, was_late, strict=False))
        missing = recorded.count(None) - late
        spent_s = _rounds_of(lanes, effort, usual_s, missing, opening_s)
        if late and action:
            spent_s = max(spent_s, action["seconds"] - opening_s)  # it was waited for
        share = missing / len(recorded) if recorded else float(self._base is None)
        self._pass(opening_s + spent_s, share, _RACE)
        drawn = iter(lanes)
        none = to_wire(LaneResult(out_of_time=True))
        return Done({"base": base, "lanes": [none if lane is None else next(drawn).result for lane in recorded]})

    def _looked(self, request: Any) -> Done:
        """A model that is only compared: what a race said of it before its rounds. If none did, its time was over."""
        lane = self._lane(request["base"])
        known = lane is not None and bool(lane["ready"] and lane["ready"]["comparisons"])
        self._pass(self._usual_s.get(_RACE, 1.0), float(not known), _RACE)
        found = LaneResult(out_of_time=not known)
        return Done({"base": {**to_wire(found), "ready": self._here(lane["ready"]) if known else None}, "lanes": []})

    def _lane(self, asked: Any) -> Any | None:
        """The longest race of a model, if there is one with as many comparisons as are asked for; None: there is none.

        Otherwise its drift is that of the samples it was compared on.
        """

        def worth(lane: Any) -> tuple[bool, int]:
            compared = len(lane["ready"]["comparisons"]) if lane["ready"] else 0
            return bool(compared) or not asked["compared"], len(lane["round_ratios"])

        return max(self._lanes.get(_subject(asked), []), key=worth, default=None)

    def _random(self) -> random.Random:
        self._draws += 1
        return random.Random(f"{self._seed} {self._draws}")

    def _pass_unknown(self, module: str) -> None:
        self._pass(self._usual_s.get(short_name(module), 1.0), 1.0, module)

    def _pass(self, seconds: float, unknown: float, module: str) -> None:
        """Let seconds pass, a share of them unknown."""
        self.in_turn.wait_until(self.now.seconds + seconds)
        self.unknown_s += unknown * seconds
        if unknown:
            self.lacks.append(short_name(module))

    def _here(self, value: Any) -> Any:
        """What a trace says, with the folder of this store; models that it names are there then, and empty."""
        if isinstance(value, dict):
            return {key: self._here(one) for key, one in value.items()}
        if isinstance(value, list):
            return [self._here(one) for one in value]
        if isinstance(value, str) and value.startswith(f"{STORE}/"):
            path = self._store.root / value.removeprefix(f"{STORE}/")
            if path.parent == self._store.models:
                path.touch()
            return str(path)
        return value

    def _nowhere(self, value: Any) -> Any:
        """What is asked, as a trace says it."""
        if isinstance(value, dict):
            return {key: self._nowhere(one) for key, one in value.items()}
        if isinstance(value, list):
            return [self._nowhere(one) for one in value]
        if isinstance(value, str):
            root = self._store.root
            return value.replace(str(root), STORE).replace(str(root.parent), "<source>")
        return value


@dataclass(frozen=True, slots=True)
class _Said:
    """The answers of actions, by the key of each.

    Attributes:
        found: actions by their key.
        lanes: of races, by what they timed.
        usual_s: mean seconds of a kind of job.
        base: figures of the original in the last race; None: there is no race.
    """

    found: dict[str, list[dict[str, Any]]]
    lanes: dict[str, list[Any]]
    usual_s: dict[str, float]
    base: Any


def _said(actions: Sequence[dict[str, Any]]) -> _Said:
    found, lanes, took, base = defaultdict(list), defaultdict(list), defaultdict(list), None
    for action in actions:
        found[action["key"]].append(action)
        took[action["name"]].append(action["seconds"])
        if action["name"] == _RACE and "answer" in action:
            base = action["answer"]["base"]
            for asked, lane in zip(action["request"]["lanes"], action["answer"]["lanes"], strict=True):
                if not lane["out_of_time"]:
                    lanes[_subject(asked)].append(lane)
    return _Said(found, lanes, {name: sum(seconds) / len(seconds) for name, seconds in took.items()}, base)


def _at_once(found: Mapping[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """Actions that may begin whenever they are asked for."""
    return {key: [{**one, "at": 0.0} for one in ones] for key, ones in found.items()}


def _subject(lane: Any) -> str:
    """What a lane times: a model with its settings, on a target, by a clock."""
    place = lane["comparison"]["place"]["target"]["name"]
    return json.dumps([lane["model"]["digest"], lane["model"]["session"], place, lane["clock"]], sort_keys=True)


@dataclass
class _Drawn:
    """A lane of a race that is put together.

    Attributes:
        recorded: what became of it in another race.
        random: draws its rounds.
        rounds: ratios so far.
        racing: whether further rounds run it.
    """

    recorded: Any
    random: random.Random
    rounds: list[float] = field(default_factory=list)
    racing: bool = True

    def __post_init__(self) -> None:
        self.racing = bool(self.recorded["round_ratios"])

    @property
    def ratio(self) -> Ratio:
        """Of the rounds so far."""
        return paired_ratio(self.rounds)

    @property
    def result(self) -> Any:
        """What the race says of it."""
        if not self.rounds:
            return self.recorded
        ratio, was = self.ratio, self.recorded["ratio"]["value"]
        goal = self.recorded["goal"] and {
            **self.recorded["goal"],
            **{end: self.recorded["goal"][end] * getattr(ratio, end) / was for end in ("value", "low", "high")},
        }
        latency_ms = self.recorded["latency_ms"] / was * ratio.value
        return {**self.recorded, "ratio": to_wire(ratio), "latency_ms": latency_ms, "goal": goal}


def _rounds_of(lanes: Sequence[_Drawn], effort: Effort, usual_s: float, missing: int, opening_s: float) -> float:
    """Draw rounds as a race runs them; the seconds that they take. See ``race_job``, whose rules these are."""
    spent_s, next_look = 0.0, effort.least_rounds
    most_s = min(effort.seconds, effort.whole_s - opening_s)
    for count in range(1, effort.most_rounds + 1):
        racing = [lane for lane in lanes if lane.racing]
        for lane in racing:
            lane.rounds.append(lane.random.choice(lane.recorded["round_ratios"]))
        spent_s += usual_s * (1 + missing) + sum(lane.recorded["round_s"] or usual_s for lane in racing)
        if (not racing and count >= LEAST_ROUNDS) or (
            spent_s >= most_s and count >= min(LEAST_ROUNDS, effort.least_rounds)
        ):
            break
        if count < next_look or not racing:
            continue
        next_look = next_look_after(count)
        best = min((lane.ratio for lane in racing), key=lambda ratio: ratio.value)
        for lane in racing:
            ratio = lane.ratio
            beaten = ratio.low * WORTH > best.high
            lane.racing = not (effort.drop and ratio.value > best.value and beaten)
        rivals = [lane.ratio for lane in racing if lane.racing and lane.ratio.value > best.value]
        if Leader(best, all(one.low > best.high for one in rivals)).is_clear(effort):
            break
    return spent_s


class _Started:
    """A job that the user's machine would do: ``Job.start`` of it."""

    peak_memory_bytes, processor_s = 0, 0.0

    def __init__(self, place: FromTrace, job: Job[Any, Any], request: object) -> None:
        self._done = place.do(Work(job.module, to_wire(request), 0.0))

    def __enter__(self) -> _Started:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def result(self, timeout_s: float, hear: Callable[[dict[str, Any]], None], *, of_silence: bool) -> Any:
        """What it answered."""
        for event in self._done.events:
            hear(event)
        return self._done.answer


def replay(
    trace: Trace,
    registry: Registry,
    seed: int | None = None,
    others: Sequence[Trace] = (),
    asked_s: SearchSeconds | None = None,
    records: Sequence[Experience] | None = None,
    of_place: type[FromTrace] | None = None,
    policy: type[Beam] | None = None,
) -> Replayed:
    """Have today's search decide on the answers of a trace.

    Args:
        trace: of a run on one target, of a model and not of a source that was exported.
        registry: of the plugins.
        seed: draws the rounds of races anew; None: as recorded.
        others: traces of the same model, which answer what the first does not.
        asked_s: seconds that the run has; None: as recorded.
        records: of earlier runs, whose chains are tried first in this order; no action waits for when it was recorded
            then. None: there is no experience.
        of_place: another workplace, in which no action waits for when it was recorded either.
        policy: searches in place of today's.

    Raises:
        OptimError[trace-version]: a job of this revision answers otherwise than in the trace.
    """
    with tempfile.TemporaryDirectory(prefix="replay-") as name, contextlib.ExitStack() as stack:
        folder = Path(name).resolve()
        store = Store(folder / "store")
        place = (of_place or FromTrace)(trace, store, seed, others, in_order=records is None and of_place is None)
        source = folder / trace.header["asked"]["source"]
        source.write_text("no model: a replay reads none")
        prepared = short_name(prepare.JOB.module)
        data = next((one["request"]["data"] for one in trace.actions if one["name"] == prepared), None)
        asked = {**trace.header["asked"], "source": str(source), "data": data, "trace": "", "fresh": records is None}
        if asked_s is not None:
            asked["search_seconds"] = asked_s
        settings = from_wire(RunSettings, asked)
        from_wire(PassCosts, trace.header["costs"]).keep(store)

        def start(job: Job[Any, Any], request: object, **_: Any) -> _Started:
            return _Started(place, job, request)

        found: list[tuple[float, str, float]] = []
        keep_explored, keep_proven = Board.explored, Board.proven

        def note(items: Sequence[Measured]) -> None:
            found.extend((place.now.seconds - place._began, one.digest, one.ratio) for one in items if one.ratio)

        def explored(board: Board, items: Iterable[Measured]) -> None:
            note(timed := list(items))
            keep_explored(board, timed)

        def proven(board: Board, item: Measured) -> None:
            note([item])
            keep_proven(board, item)

        announced_s, begun = trace.end["announced_s"], deadline.Start(**trace.header["start"])
        of_several = execute.of_several if asked_s == AUTO else lambda each: announced_s
        for module, attribute, value in (
            (Job, "start", start),
            (versions, "_digest_of", _source_digest),
            (environments, "installed_environment", _environment),
            (Runner, "keep", lambda runner, key, value: None),  # a run that is fresh reads none of it
            (execute, "operator_counts", lambda path: {}),
            (execute, "mapped_config", lambda path, target: {}),
            (execute, "of_several", of_several),
            (Board, "explored", explored),
            (Board, "proven", proven),
            (Beam, "may_learn", bool(records)),
            (beam, "of_run", lambda *run: replace((records or [])[0], searched_s=0.0, chain=())),
            (recall, "read", lambda store: (list(records or ()), "")),
            (recall, "nearest", lambda known, run: known),
            (recall, "parse_options", lambda pass_class, options: options),  # as recorded: passes have more today
            (recall, "with_names", lambda options, given: options),
            (recall, "with_places", lambda options, given: options),
            (experience, "work_by_weight", lambda path: {}),  # the files are empty
            (recall, "keep", lambda store, new: ""),
            (execute, "thread_executor", lambda at_once: contextlib.nullcontext(place.in_turn)),
            (execute, "is_whole", lambda path: True),
            (traces, "unread_rows", lambda original, result, samples: ()),
            (workbench, "is_whole", lambda path: True),
            (restore, "_is_whole", lambda path, store: True),
            (restore, "external_files", lambda path: []),
            (deadline, "start_of_command", lambda: begun),
            (contest, "Beam", policy or Beam),
        ):
            stack.enter_context(mock.patch.object(module, attribute, value))
        try:
            outcome = execute.execute(settings, registry, store, lambda text: None, elsewhere=place)
        except (LookupError, TypeError, ValueError) as error:
            raise OptimError(
                "trace-version",
                f"the trace of {source.name} cannot be replayed",
                f"its answers are not those of this revision: {type(error).__name__} {error}",
                "record it again: python benchmarks/search/record.py",
            ) from error
        seconds = place.now.seconds - place._began
    unknown, estimated = (some_s / max(seconds, 1e-9) for some_s in (place.unknown_s, place.estimated_s))
    likely = place.likely(outcome.result.candidate.digest) if outcome.result else None
    return Replayed(outcome, seconds, unknown, tuple(place.lacks), tuple(found), estimated, likely)
