"""What was found is a reason not to try less, a stage leaves time to what promises more, and what ran out says so."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from boards import board_of, timed_at

from optim._engine.goals.known import SIZE
from optim._engine.search.explore.beam import LEFT_FOR_LATER, run_out, share_of_later
from optim._engine.search.explore.promise import Promises
from optim._engine.search.rows import OUT_OF_TIME
from optim._engine.search.state import Step, StepStatus
from optim.passes import Role, Stage


def step(name, stage=Stage.QUANTIZE):
    return Step(stage, name, "plugin", {}, Role.IMPROVE, lossy=False)


def planned(name, stage=Stage.QUANTIZE, *, lossy=False):
    offered, pass_class = SimpleNamespace(stage=stage, name=name), SimpleNamespace(lossy=lossy)
    return SimpleNamespace(name=name, offered=offered, pass_class=pass_class)


@pytest.fixture
def promises():
    return Promises(60.0)


def legs(*passes):
    return [(one.offered.stage, [one]) for one in passes]


BITS, FUSION = step("weights"), step("fusion", Stage.FUSE)


@pytest.mark.parametrize(
    ("gained", "latency", "asked", "is_tried"),
    [
        ({"weights": 0.9}, {"parent": 0.8}, BITS, True),  # 0.72 may be the best
        ({"weights": 0.9}, {"parent": 0.8, "best": 0.4}, BITS, False),
        ({}, {"parent": 0.8, "best": 0.4}, BITS, True),  # nobody timed it
        ({"weights": 0.6}, {"parent": 0.8, "best": 0.4}, BITS, True),  # 0.48 is within a third of 0.4
        ({"fusion": 0.95, "weights": 0.4}, {"parent": 1.0, "best": 0.4}, FUSION, False),
    ],
)
def test_what_adds_too_little_is_not_tried_on_another_chain(promises, gained, latency, asked, is_tried):
    for one in (BITS, FUSION):
        if one.pass_name in gained:
            promises.note_ratio(one, gained[one.pass_name])
    promises.note_latency([timed_at(SimpleNamespace(digest=name), ratio) for name, ratio in latency.items()])
    reason = promises.adds_too_little(SimpleNamespace(digest="parent"), asked)
    assert reason == "" if is_tried else reason.startswith("expected latency ratio about ")


def test_where_size_is_the_goal_lossless_stages_leave_time_to_lossy_ones():
    fuse, weights = planned("fuse", Stage.FUSE), planned("weights", lossy=True)
    assert share_of_later([fuse], [weights]) == LEFT_FOR_LATER
    assert share_of_later([weights], [weights]) == share_of_later([fuse], [fuse]) == 0.0


def test_what_time_ran_out_for_says_so_and_what_was_tried_keeps_its_reason():
    from optim._engine.gate.drift import Drift
    from optim._engine.search.state import Candidate
    from optim.model import Model

    original = Candidate(Model("m.onnx", "m", (), (), {"": 17}, 9), 100)
    journal = board_of(goal=SIZE)
    waiting, wrong, held = (journal.open(step(name), original) for name in ("waiting", "wrong", "held"))
    wrong.settle(StepStatus.DROPPED, "it is wrong")
    held.drift = Drift(0.01, 0.0, 1.0)
    run_out([planned("waiting")], journal)
    assert (waiting.status, waiting.reason) == (StepStatus.SKIPPED, OUT_OF_TIME)
    assert (wrong.reason, held.reason) == ("it is wrong", "")
