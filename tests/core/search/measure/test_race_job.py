"""When a race has its turn at the machine's clock. No lane runs: what is opened and timed is made up."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from optim._engine.jobs.start_up import Ready
from optim._engine.search.measure import race_job
from optim._engine.search.measure.race_job import Effort

WAITED_S = 100.0


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What happens, in order; the turn comes after a long wait."""
    found: list[str] = []
    now = [0.0]

    def opened(*asked: object) -> list[Any]:
        found.append("opened")
        return [race_job.Lane(SimpleNamespace(close=lambda: found.append("closed")), Ready((), 0, {}, ()))]

    def timed(lanes: object, effort: object, seed: object, end: float) -> Any:
        found.append(f"timed for {end - now[0]:.0f} s")
        return SimpleNamespace(cut_short=False)

    @contextmanager
    def turn() -> Iterator[None]:
        found.append("waiting")
        now[0] += WAITED_S
        yield
        found.append("turn is over")

    @contextmanager
    def quiet() -> Iterator[None]:
        found.append("quiet")
        yield
        found.append("not quiet")

    monkeypatch.setattr(race_job, "open_lanes", opened)
    monkeypatch.setattr(race_job, "quiet", quiet)
    monkeypatch.setattr(race_job, "run_rounds", timed)
    monkeypatch.setattr(race_job.time, "monotonic", lambda: now[0])
    turns: Any = SimpleNamespace(turn=turn, await_quiet_end=lambda: found.append("may begin"))
    for one in (request(opens_beside=False), request(opens_beside=True), request(opens_beside=True, patience_s=1.0)):
        found.append("")
        race_job.run(one, turns)
    return found


def request(*, opens_beside: bool, patience_s: float = 0.0) -> race_job.Request:
    base: Any = None
    effort = Effort(1.0, whole_s=50.0, patience_s=patience_s)
    return race_job.Request(base, (), effort, 0, opens_beside=opens_beside)


def test_lanes_are_opened_before_the_turn_where_there_is_memory(steps: list[str]) -> None:
    inside = ["", "waiting", "opened", "timed for 50 s", "closed", "turn is over"]
    # waiting is no time of the race
    beside = ["", "may begin", "opened", "waiting", "timed for 50 s", "turn is over", "closed"]
    assert steps[: len(inside + beside)] == inside + beside


def test_a_race_with_patience_for_quiet_rounds_asks_for_quiet(steps: list[str]) -> None:
    asked = ["waiting", "quiet", "timed for 50 s", "not quiet", "turn is over", "closed"]
    assert steps[-len(asked) :] == asked


def test_an_exception_while_lanes_are_opened_leaves_none_open(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[str] = []
    first_is_open = threading.Event()

    def open_lane(request: Any, timeout_s: float, **_: object) -> race_job.Lane:
        if request.name == "broken":
            first_is_open.wait(60)
            raise ZeroDivisionError
        worker: Any = SimpleNamespace(close=lambda: closed.append(request.name))
        first_is_open.set()
        return race_job.Lane(worker, Ready((), 0, {}, ()))

    monkeypatch.setattr(race_job, "open_lane", open_lane)
    whole: Any = SimpleNamespace(model=SimpleNamespace(digest="a"), comparison=SimpleNamespace(place=None))
    base, broken = (SimpleNamespace(name=name, **vars(whole)) for name in ("base", "broken"))
    with pytest.raises(ZeroDivisionError):
        race_job.open_lanes(base, [broken], Effort(1.0), math.inf)  # type: ignore[arg-type]
    assert closed == ["base"]
