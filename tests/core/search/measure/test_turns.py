"""Turns at the clock: who is waited for is said, waiting is no search time, and it ends."""

from __future__ import annotations

import subprocess
import sys

import pytest

from optim._engine.search.time_budget import TimeBudget
from optim._engine.search.turns import Turns
from optim.errors import ExitStatus, OptimError

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
    assert said == [f"waiting for process {other.pid} (optim on big.onnx): only one times something at once"]
    assert caught.value.reference == "clock-in-use"
    assert caught.value.status is ExitStatus.USAGE
    assert f"process {other.pid}" in caught.value.cause


def test_waiting_is_no_search_time(other):
    at = [0.0]

    def now() -> float:
        return at[0]

    turns = Turns("optim on mine.onnx", lambda text: at.__setitem__(0, at[0] + 100.0), now=now)
    turns.most_wait_s = 0.1
    budget = TimeBudget(60.0, 300.0, now=turns.now)
    with pytest.raises(OptimError), turns.turn():
        pass
    assert at[0] == 100.0
    assert budget.left == 60.0
    at[0] += 20.0
    assert budget.left == 40.0
