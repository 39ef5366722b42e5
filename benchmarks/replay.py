"""A run again, from its trace: the search of today decides, and every job is answered from the file in simulated time.

Nothing is run and no model is read. A job that the trace has takes the seconds that it took. One that it lacks takes
the mean of its kind in the trace, fails, and its seconds count as unknown. With a seed, the rounds of each race are
drawn anew from those that were recorded.
"""

from __future__ import annotations

import bisect
import contextlib
import heapq
import itertools
import random
import tempfile
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from optim._engine.jobs import prepare
from optim._engine.jobs.job import Job
from optim._engine.plugins.registry import Registry
from optim._engine.reports.outcome import Outcome
from optim._engine.runs import execute
from optim._engine.search import restore, run_time, workbench
from optim._engine.search.explore import expand
from optim._engine.search.measure import race_job
from optim._engine.search.measure.statistics import paired_ratio
from optim._engine.search.settings import RunSettings
from optim._engine.search.state import LaneResult
from optim._engine.store import Store
from optim._engine.trace import STORE, Trace, key_of
from optim.errors import ExitStatus, OptimError
from optim.jobs.process import WorkerFailed
from optim.jobs.wire import from_wire, to_wire
from optim.workplace import Done, Work

MOST_UNKNOWN = 0.1
"""Share of unknown seconds from which a replay does not count."""

_AT_ONCE = 2
"""Jobs that the recorded run did at the same time: see ``workbench._AT_ONCE``."""


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
        settle: called when all have ended.
    """

    def __init__(self, clock: Clock, settle: Callable[[], None]) -> None:
        self._clock, self._settle = clock, settle
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
            if left and alive < _AT_ONCE:
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
        self._settle()
        return iter([one.result() for one in found])


@dataclass(frozen=True, slots=True)
class Replayed:
    """What a replay comes to.

    Attributes:
        outcome: the verdict of today's search.
        seconds: simulated, of the whole run.
        unknown: share of them that the trace says nothing of.
        lacks: names of the jobs that it has no answer for.
    """

    outcome: Outcome
    seconds: float
    unknown: float
    lacks: tuple[str, ...]

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
    """

    libraries: Mapping[str, str] = {}
    at_once = _AT_ONCE
    machine = "trace"

    def __init__(self, trace: Trace, store: Store, seed: int | None = None, others: Sequence[Trace] = ()) -> None:
        self.now = Clock()
        self.report = trace.header["machine"]
        self.available_bytes = (self.report["memory_bytes"] or 1 << 34) // 2
        self.unknown_s = 0.0
        self.lacks: list[str] = []
        self._seed, self._draws = seed, 0
        self._store = store
        self._began = self.now.seconds - trace.header["start"]["seconds"]
        self.in_turn = InTurn(self.now, self._settle)
        self._begins = sorted(self._began + action["at"] for action in trace.actions)
        self._found: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self._lanes: dict[str, list[Any]] = defaultdict(list)
        self._bases: list[Any] = []
        took = defaultdict(list)
        theirs = [{**action, "at": 0.0} for other in others for action in other.actions]
        for action in (*trace.actions, *theirs):
            self._found[action["key"]].append(action)
            took[action["name"]].append(action["seconds"])
            if action["name"] == race_job.MODULE and "answer" in action:
                self._bases.append(action["answer"]["base"])
                for asked, lane in zip(action["request"]["lanes"], action["answer"]["lanes"], strict=True):
                    if not lane["out_of_time"]:
                        self._lanes[asked["model"]["digest"]].append(lane)
        self._usual_s = {name: sum(seconds) / len(seconds) for name, seconds in took.items()}

    def working(self) -> contextlib.AbstractContextManager[None]:
        """Nothing has to be begun, and nothing ended."""
        return contextlib.nullcontext()

    def do(self, work: Work) -> Done:
        """The answer that the trace has.

        Raises:
            WorkerFailed: as recorded, or because the trace has none.
        """
        action = self.action(work.module, work.request)
        if action is None and work.module == race_job.MODULE:
            return self._raced(work)
        if action is None:
            self._pass_unknown(work.module)
            raise WorkerFailed("the trace has no answer to it", "unknown")
        self.in_turn.wait_until(max(self.now.seconds, self._began + action["at"]) + action["seconds"])
        self._settle()
        events = self._here(action["events"])
        if "failed" in action:
            failed, error = action["failed"], action["failed"]["error"]
            error = error and OptimError(**{**error, "status": ExitStatus(error["status"])})
            failure = WorkerFailed(failed["reason"], failed["kind"], "", error, failed["doing"])
            failure.events = events
            raise failure
        answer = self._here(action["answer"])
        if work.module == race_job.MODULE and self._seed is not None:
            answer["lanes"] = [self._drawn(lane) for lane in answer["lanes"]]
        return Done(answer, events)

    def _settle(self) -> None:
        """Let the time pass that the search itself took before what it did next, as recorded."""
        place = bisect.bisect_left(self._begins, self.now.seconds)
        if self._seed is None and not self.in_turn.is_on and not self.lacks and place < len(self._begins):
            self.now.seconds = self._begins[place]

    def action(self, name: str, request: Any) -> dict[str, Any] | None:
        """The next action of this work, the last one again where there is no other; None: the trace has none."""
        known = self._found.get(key_of(name, self._nowhere(to_wire(request))), [])
        return known.pop(0) if len(known) > 1 else known[0] if known else None

    def _raced(self, work: Work) -> Done:
        """A race that was not run: each lane as in another race, those that were in none without a figure."""
        lanes = work.request["lanes"]
        known = [self._lanes.get(lane["model"]["digest"]) for lane in lanes]
        self._pass_unknown(work.module, known.count(None) / len(known) if known else 1.0)
        base = self._here(self._bases[-1]) if self._bases else to_wire(LaneResult(out_of_time=True))
        none = to_wire(LaneResult(out_of_time=True))
        return Done({"base": base, "lanes": [self._drawn(self._here(found[-1])) if found else none for found in known]})

    def _pass_unknown(self, module: str, share: float = 1.0) -> None:
        seconds = self._usual_s.get(module, 1.0)
        self.in_turn.wait_until(self.now.seconds + seconds)
        self.unknown_s += share * seconds
        if share:
            self.lacks.append(module.rpartition(".")[2])

    def _drawn(self, lane: Any) -> Any:
        """A lane with rounds drawn anew."""
        if self._seed is None or not lane["round_ratios"]:
            return lane
        self._draws += 1
        rounds = random.Random(f"{self._seed} {self._draws}").choices(lane["round_ratios"], k=len(lane["round_ratios"]))
        ratio = paired_ratio(rounds, [1.0] * len(rounds))
        latency_ms = lane["latency_ms"] / lane["ratio"]["value"] * ratio.value
        return {**lane, "ratio": to_wire(ratio), "latency_ms": latency_ms}

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


class _Started:
    """A job that the user's machine would do: ``Job.start`` of it."""

    peak_memory_bytes, processor_s = 0, 0.0

    def __init__(self, place: FromTrace, job: Job[Any, Any], request: object) -> None:
        self._done = place.do(Work(job.module, to_wire(request), 0.0))

    def __enter__(self) -> _Started:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def result(self, timeout_s: float, hear: Callable[[dict[str, Any]], None]) -> Any:
        """What it answered."""
        for event in self._done.events:
            hear(event)
        return self._done.answer


def replay(trace: Trace, registry: Registry, seed: int | None = None, others: Sequence[Trace] = ()) -> Replayed:
    """Have today's search decide on the answers of a trace.

    Args:
        trace: of a run on one target, of a model and not of a source that was exported.
        registry: of the plugins.
        seed: draws the rounds of races anew; None: as recorded.
        others: traces of the same model, which answer what the first does not.

    Raises:
        OptimError[trace-version]: a job of this revision answers otherwise than in the trace.
    """
    with tempfile.TemporaryDirectory(prefix="replay-") as name, contextlib.ExitStack() as stack:
        folder = Path(name).resolve()
        store = Store(folder / "store")
        place = FromTrace(trace, store, seed, others)
        source = folder / trace.header["asked"]["source"]
        source.write_text("no model: a replay reads none")
        data = next((one["request"]["data"] for one in trace.actions if one["name"] == prepare.JOB.module), None)
        asked = {**trace.header["asked"], "source": str(source), "data": data, "trace": "", "fresh": True}
        settings = from_wire(RunSettings, asked)

        def reach(*models: Path) -> Any:
            action = place.action("reach", models)
            return 1.0 if action is None else action["answer"]

        def start(job: Job[Any, Any], request: object, **_: Any) -> _Started:
            return _Started(place, job, request)

        announced_s, begun = trace.end["announced_s"], run_time.Start(**trace.header["start"])
        for module, attribute, value in (
            (Job, "start", start),
            (expand, "share_within_reach", reach),
            (execute, "operator_counts", lambda path: {}),
            (execute, "mapped_config", lambda path, target: {}),
            (execute, "of_several", lambda each: announced_s),
            (execute, "thread_executor", lambda at_once: contextlib.nullcontext(place.in_turn)),
            (execute, "is_whole", lambda path: True),
            (workbench, "is_whole", lambda path: True),
            (restore, "_is_whole", lambda path, store: True),
            (restore, "external_files", lambda path: []),
            (run_time, "start_of_command", lambda: begun),
        ):
            stack.enter_context(mock.patch.object(module, attribute, value))
        try:
            outcome = execute.execute(settings, registry, store, lambda text: None, elsewhere=place)
        except (LookupError, TypeError, ValueError) as error:
            raise OptimError(
                "trace-version",
                f"the trace of {source.name} cannot be replayed",
                f"its answers are not those of this revision: {type(error).__name__} {error}",
                "record it again: python benchmarks/record.py",
            ) from error
        seconds = place.now.seconds - place._began
    return Replayed(outcome, seconds, place.unknown_s / max(seconds, 1e-9), tuple(place.lacks))
