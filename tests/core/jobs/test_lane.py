"""What a lane tells of its rounds."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from optim._engine.backends import session_contract
from optim._engine.jobs import lane
from optim._engine.jobs.lane import _answer_rounds, _GoalTimer
from optim.goal import Figure


class Device:
    """A session on a clock that only it moves. After each round it spins for a processor second, as threads do.

    Args:
        run_s: that a run takes, in which it uses a processor second.
        way_s: to the device and back, for each call.
        says: of a run, in seconds.
        disturbed_s: what else the machine does in each call, in turn.
    """

    def __init__(self, run_s, way_s, says, disturbed_s=(0.0,)):
        self.run_s, self.way_s, self.says = run_s, way_s, says
        self.disturbed_s = itertools.cycle(disturbed_s)
        self.now = self.used_s = 0.0

    def perf_counter(self):
        return self.now

    def processor_s(self):
        return self.used_s

    def run(self, feeds):
        self.time_runs(feeds, 1)
        return {}

    def time_runs(self, feeds, count):
        self.used_s += count
        self.now += self.way_s + count * self.run_s + next(self.disturbed_s)
        return [self.says] * count

    def release(self):
        """Nothing to leave."""


class LateDevice(Device):
    """Says a time when it has taken the work, and does the work before the next run."""

    left_s = 0.0

    def run(self, feeds):
        self.now += self.left_s + self.run_s
        self.left_s = 0.0
        return {}

    def time_runs(self, feeds, count):
        self.now += count * self.says
        self.left_s += count * (self.run_s - self.says)
        return [self.says] * count


class Coordinator:
    """Asks for some rounds, between which the session spins."""

    def __init__(self, session, rounds):
        self.session, self.rounds, self.told = session, rounds, []

    def receive(self):
        self.session.used_s += 1.0
        return {"go": len(self.told) < self.rounds, "by_wall": any(one["doubt"] for one in self.told)}

    def event(self, kind, **fields):
        self.told.append(fields)


def _rounds(channel, session, goal, told=0.0):
    backend = SimpleNamespace(by_wall=False)
    _answer_rounds(channel, backend, session, [("x", {"x": np.zeros(1)})], [0.1], goal, told)
    return backend


def test_all_processor_seconds_since_a_lane_was_ready_are_its_own(monkeypatch):
    session = Device(0.1, 0.0, 0.1)
    monkeypatch.setattr(lane, "time", session)
    ready_s = session.processor_s()
    session.used_s += 5.0  # the goal's clock starts
    channel = Coordinator(session, rounds=3)
    _rounds(channel, session, _GoalTimer(None, None), ready_s)
    cpu_s = [one["cpu_s"] for one in channel.told]
    assert sum(cpu_s) == session.processor_s() - 1.0  # but what it spins after the last round
    assert cpu_s[0] == cpu_s[1] + 5.0


def test_a_clock_that_says_what_passed_costs_no_further_runs(monkeypatch):
    """The untimed run before a burst is no time that the clock left out."""
    session = Device(0.1, 1e-3, 0.1)
    monkeypatch.setattr(lane, "time", session)
    _rounds(Coordinator(session, rounds=1), session, _GoalTimer(None, None))
    assert session.used_s == 2 + 2.0  # an untimed run and a timed one; the threads spin twice


DEVICES = {
    "its own": (Device(30e-6, 0.0, 30e-6), False),
    "far away": (Device(55e-6, 6.2e-3, 55e-6), False),
    "on a busy machine": (Device(55e-6, 0.1e-3, 55e-6, (0.0, 6.2e-3, 8e-3, 31e-3, 12e-3, 7e-3, 5e-3)), False),
    "that says too little": (Device(30e-6, 0.0, 0.7e-6), True),
    "that counts only kernels": (Device(30e-6, 0.2e-3, 9e-6), True),
    "that says too little on a busy machine": (Device(30e-6, 0.0, 0.7e-6, (0.0, 6.2e-3, 31e-3)), True),
    "that says too much": (Device(30e-6, 0.0, 0.75), True),
    "that says a time before the work is done": (LateDevice(0.03, 0.0, 0.001), True),
}


@pytest.mark.parametrize("clock", DEVICES)
def test_a_clock_is_doubted_if_it_says_too_little_or_too_much_however_busy_the_machine_is(monkeypatch, clock):
    device, doubted = DEVICES[clock]
    monkeypatch.setattr(session_contract, "time", device)
    found = session_contract.clock_doubt(device, {})
    assert (found is not None) == doubted
    if found:
        assert found == (pytest.approx(device.says), pytest.approx(device.run_s))


def test_a_device_that_says_a_time_before_the_work_is_done_is_timed_by_the_wall(monkeypatch):
    device = LateDevice(0.03, 0.0, 0.001)
    for module in (lane, session_contract):
        monkeypatch.setattr(module, "time", device)
    assert _rounds(Coordinator(device, rounds=2), device, _GoalTimer(None, None)).by_wall


def test_a_doubted_lane_begins_its_goal_again_by_the_wall(monkeypatch):
    """What the goal chose by the device's clock is worth nothing."""
    device, log = Device(30e-6, 0.0, 0.7e-6), []
    for module in (lane, session_contract):
        monkeypatch.setattr(module, "time", device)

    class Clock:
        """Of a goal."""

        def start(self, subject):
            log.append("start")
            return SimpleNamespace(close=lambda: log.append("close"))

        def round(self, timer):
            log.append("round")
            return Figure(1.0)

    channel = Coordinator(device, rounds=3)
    backend = _rounds(channel, device, _GoalTimer(Clock(), None))
    assert backend.by_wall
    assert [one["goal"] is not None for one in channel.told] == [False, True, True]
    assert log == ["start", "close", "start", "round", "round"]
