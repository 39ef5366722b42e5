"""Turns at the clock: who is waited for is said, waiting is no search time, and it ends."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest
from deadlines import search_of

from optim._engine.locks import held_for_s
from optim._engine.search import turns as turns_module
from optim._engine.search.turns import QUIET, QUIET_S, Turns, quiet
from optim.errors import ExitStatus, OptimError
from optim.folders import lock_folder

HOLDER = """
import time
from optim._engine.search.turns import Turns
with Turns("optim on big.onnx", print).turn():
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def locks(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))


@pytest.fixture
def other():
    with subprocess.Popen([sys.executable, "-c", HOLDER], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_turn_that_nobody_else_has_is_had_at_once_and_silently():
    said = []
    turns = Turns("optim on mine.onnx", said.append)
    with turns.turn(), pytest.raises(OptimError, match="clock-in-use"):
        second = Turns("optim on other.onnx", lambda text: None)
        second.most_wait_s = 0.1
        with second.turn():
            pass
    with turns.turn():
        pass
    assert said == []


def test_who_is_waited_for_is_said_and_waiting_ends(other):
    said = []
    turns = Turns("optim on mine.onnx", said.append)
    turns.most_wait_s = 0.2
    with pytest.raises(OptimError) as caught, turns.turn():
        pass
    assert said == [f"waiting: another optim is timing, process {other.pid} (optim on big.onnx)"]
    assert caught.value.reference == "clock-in-use"
    assert caught.value.status is ExitStatus.USAGE
    assert f"process {other.pid}" in caught.value.cause


def test_waiting_is_no_search_time(other):
    at = [0.0]

    def now() -> float:
        return at[0]

    def wait(text: str) -> None:
        at[0] += 100.0
        shown.append(budget.to_explore)

    shown: list[float] = []
    turns = Turns("optim on mine.onnx", wait, now=now)
    turns.most_wait_s = 0.1
    budget = search_of(60.0, 300.0, now=turns.now)
    with pytest.raises(OptimError), turns.turn():
        pass
    assert at[0] == 100.0
    assert shown == [60.0]  # who looks while it waits sees that the clock stands still
    assert budget.to_explore == 60.0
    at[0] += 20.0
    assert budget.to_explore == 40.0
    assert turns.notes == ("the run waited 100 s while other runs measured time, besides the search time",)
    assert Turns("optim on mine.onnx", wait, now=now).notes == ()


def test_a_job_begins_at_once_where_nobody_asks_for_quiet():
    turns = Turns("optim on mine.onnx", print)
    turns.await_quiet_end()
    with quiet():
        assert held_for_s(QUIET) is not None
        with quiet():  # somebody on another device
            pass
    assert held_for_s(QUIET) is None
    turns.await_quiet_end()


def test_a_job_begins_when_what_decides_was_timed():
    turns, begun = Turns("optim on mine.onnx", print, now=lambda: 0.0), threading.Event()

    def job():
        turns.await_quiet_end()
        begun.set()

    with quiet():
        holder = lock_folder() / f"{QUIET}.holder"
        os.utime(holder, (holder.stat().st_mtime + 3600,) * 2)  # it has just begun, however slow this machine is
        thread = threading.Thread(target=job)
        thread.start()
        assert not begun.wait(0.1)
    assert begun.wait(60)
    thread.join()


def test_nobody_waits_long_for_quiet():
    """What is longer is disturbed by something else."""
    with quiet():
        holder = lock_folder() / f"{QUIET}.holder"
        os.utime(holder, (holder.stat().st_mtime - QUIET_S,) * 2)
        assert held_for_s(QUIET) >= QUIET_S and not turns_module._is_quiet()


def test_waiting_for_quiet_is_no_search_time(monkeypatch):
    at, left = [0.0], [3]

    def is_quiet():
        left[0] -= 1
        at[0] += 0.5
        return left[0] >= 0

    monkeypatch.setattr(turns_module, "_is_quiet", is_quiet)
    turns = Turns("optim on mine.onnx", print, now=lambda: at[0])
    turns.await_quiet_end()
    assert (at[0], turns.now()) == (2.0, 0.5)  # the first look found no time passed yet
    left[0], at[0] = 100, 10.0
    turns.await_quiet_end()
    assert at[0] == pytest.approx(10.0 + QUIET_S + 1.0, abs=0.5)  # two seconds of it, whoever comes next


def test_threads_of_one_run_wait_together(monkeypatch):
    clock = iter([0.0, 1.0, 1.0, 0.5, 1.5, 1.5])  # two that wait from 0 to 1 and from 0.5 to 1.5
    answers = iter([True, False, True, False])
    monkeypatch.setattr(turns_module, "_is_quiet", lambda: next(answers))
    turns = Turns("optim on mine.onnx", print, now=lambda: next(clock, 100.0))
    turns.await_quiet_end()
    turns.await_quiet_end()
    assert turns.now() == 100.0 - 1.5


def test_what_stood_still_elsewhere_is_no_search_time():
    at = [40.0]
    turns = Turns("optim on a cluster", print, now=lambda: at[0], elsewhere=True)
    turns.stood_still(30.0)  # two jobs, through the same cut of a network
    at[0] = 42.0
    turns.stood_still(31.0)
    assert turns.now() == 42.0 - 32.0
