"""What a lane tells of its rounds."""

from __future__ import annotations

import numpy as np

from optim._engine.jobs.lane import _answer_rounds


class Spinning:
    """A session that takes a processor second a run, and one more after each round, as threads that wait do."""

    def __init__(self):
        self.used_s = 0.0

    def processor_s(self):
        return self.used_s

    def run(self, feeds):
        self.used_s += 1.0
        return {}

    def time_runs(self, feeds, count):
        self.used_s += count
        return [0.1] * count

    def release(self):
        """Nothing to leave."""


class Coordinator:
    """Asks for some rounds, between which the session spins."""

    def __init__(self, session, rounds):
        self.session, self.rounds, self.told = session, rounds, []

    def receive(self):
        self.session.used_s += 1.0
        return {"go": len(self.told) < self.rounds}

    def event(self, kind, **fields):
        self.told.append(fields)


def test_all_processor_seconds_since_a_lane_was_ready_are_its_own():
    session = Spinning()
    ready_s = session.processor_s()
    session.used_s += 5.0  # the goal's clock starts
    channel = Coordinator(session, rounds=3)
    _answer_rounds(channel, session, [("x", {"x": np.zeros(1)})], [0.1], None, ready_s)
    cpu_s = [one["cpu_s"] for one in channel.told]
    assert sum(cpu_s) == session.processor_s() - 1.0  # but what it spins after the last round
    assert cpu_s[0] == cpu_s[1] + 5.0
