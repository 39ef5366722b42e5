"""What is repaired in the time that nothing else needs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from boards import board_of
from deadlines import search_of

from optim._engine.gate.drift import Drift
from optim._engine.search.deadline import Deadline
from optim._engine.search.select.repair import Repairs
from optim._engine.search.state import Candidate
from optim.model import Model


@pytest.mark.parametrize(("left_s", "asked"), [(30.0, ["small", "middle"]), (0.0, [])])
def test_what_was_smallest_is_repaired_first_in_the_time_that_is_left(monkeypatch, left_s, asked):
    monkeypatch.setattr(Deadline, "before", lambda *_: left_s)
    time, tried = search_of(60.0, 300.0), []
    repairs = Repairs(None, board_of(), time, None, None)
    for name, size in (("large", 30), ("middle", 20), ("small", 10), ("tiny", 1)):
        attempt = SimpleNamespace(unrepaired="no search time left")
        one = SimpleNamespace(name=name, made_bytes=size, key=name, attempt=attempt)
        repairs.near[name] = one
    monkeypatch.setattr(
        repairs, "repair", lambda one: tried.append(one.name) or (one if one.name == "middle" else None)
    )
    found = repairs.repair_on(lambda one: one.name != "tiny")
    assert tried == asked
    assert (found is not None) == bool(asked)


def test_goal_accuracy_halves_the_drift_while_the_model_fits_and_then_aims_between(monkeypatch):
    aims = []

    def repaired(_, candidate, aim, seconds, why):
        aims.append(aim)
        return replace(candidate, size_bytes=int(1 / aim), drift=Drift(aim, aim, 1.0))

    monkeypatch.setattr(Repairs, "_repaired", repaired)
    time = search_of(60.0, 300.0)
    repairs = Repairs(None, board_of(), time, None, None)
    best = Candidate(Model(Path("m"), "m", (), (), {"": 17}, 9), 100, drift=Drift(0.08, 0.08, 1.0))
    found = repairs.nearer(best, lambda candidate: candidate.size_bytes <= 40)
    assert aims[:2] == pytest.approx([0.04, 0.02])
    assert [one.size_bytes for one in found] == sorted(one.size_bytes for one in found)
    assert 35 <= found[-1].size_bytes <= 40
