"""What was found is a reason not to try less, a stage leaves time to what promises more, and what ran out says so."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from optim._engine.gate.budget import Budget
from optim._engine.goals.known import SIZE
from optim._engine.search.board import Board
from optim._engine.search.explore.promise import Promises
from optim._engine.search.explore.rest import LEFT_FOR_LATER, OUT_OF_TIME, run_out, share_of_later
from optim._engine.search.state import Measured, Step, StepStatus
from optim.passes import Role, Stage


def step(name, stage=Stage.QUANTIZE):
    return Step(stage, name, "plugin", {}, Role.IMPROVE, lossy=False)


def planned(name, stage=Stage.QUANTIZE, *, forced=False):
    offered = SimpleNamespace(stage=stage, name=name)
    return SimpleNamespace(ordered=SimpleNamespace(name=name, offered=offered), forced=forced, offered=offered)


@pytest.fixture
def promises():
    return Promises(60.0)


def legs(*passes):
    return [(one.offered.stage, [one]) for one in passes]


def test_what_cannot_reach_what_is_found_is_not_tried_on_another_chain(promises):
    fused, best = (SimpleNamespace(digest=name) for name in ("fused", "best"))
    promises.note_ratio(step("weights"), 0.9)
    promises.note_latency([Measured(fused, 0.8)])
    assert promises.adds_too_little(fused, step("weights")) == ""  # 0.72 may be the best
    promises.note_latency([Measured(best, 0.4)])
    assert promises.adds_too_little(fused, step("weights")) == (
        "expected latency ratio about 0.72, and the best so far has 0.40"
    )
    assert promises.adds_too_little(fused, step("never timed")) == ""


def test_what_a_fusion_takes_off_a_model_in_8_bits_makes_it_worth_its_time(promises):
    original, best = (SimpleNamespace(digest=name) for name in ("original", "best"))
    fusion = step("fusion", Stage.FUSE)
    promises.note_ratio(fusion, 0.95)
    promises.note_latency([Measured(original, 1.0), Measured(best, 0.4)])
    promises.note_ratio(step("weights"), 0.4)
    assert promises.adds_too_little(original, fusion) != "", "nobody knows whether 8 bits hold"
    promises.note_held(step("weights"))
    assert promises.adds_too_little(original, fusion) == ""
    assert promises.adds_too_little(original, fusion, best_guess=False) != "", "one fusion stands for all"


def test_a_fusion_of_what_was_cleaned_adds_nothing_where_it_is_there_without(promises):
    fused, cleaned, best = (SimpleNamespace(digest=name) for name in ("fused", "cleaned", "best"))
    fusion, weights = step("fusion", Stage.FUSE), step("weights")
    promises.note_ratio(fusion, 0.9)
    promises.note_ratio(weights, 0.4)
    promises.note_held(weights)
    promises.note_latency([Measured(cleaned, 0.99), Measured(best, 0.4)])
    assert promises.adds_too_little(cleaned, fusion) == ""
    promises.note_fused("fused")
    promises.note_latency([Measured(fused, 0.9)])
    assert promises.adds_too_little(cleaned, fusion) != ""


def test_a_fusion_that_gains_nothing_takes_nothing_off_8_bits(promises):
    original, best = (SimpleNamespace(digest=name) for name in ("original", "best"))
    fusion, weights = step("fusion", Stage.FUSE), step("weights")
    promises.note_ratio(fusion, 1.05)
    promises.note_ratio(weights, 0.4)
    promises.note_held(weights)
    promises.note_latency([Measured(original, 1.0), Measured(best, 0.4)])
    assert promises.adds_too_little(original, fusion) != ""


def test_a_step_that_comes_near_what_is_found_may_surprise(promises):
    fused, best = (SimpleNamespace(digest=name) for name in ("fused", "best"))
    promises.note_ratio(step("weights"), 0.6)
    promises.note_latency([Measured(fused, 0.8), Measured(best, 0.4)])
    assert promises.adds_too_little(fused, step("weights")) == ""  # 0.48 is within a third of it


def test_fusions_leave_time_for_8_bits_that_hold_and_are_made_anew_of_each(promises):
    fuse, weights = planned("fuse", Stage.FUSE), planned("weights")
    promises.note_ratio(step("weights"), 0.5)
    promises.note_held(step("weights"))
    assert share_of_later([fuse], [weights], promises, for_size=False) == LEFT_FOR_LATER
    promises.note_ratio(step("fuse", Stage.FUSE), 0.4)
    assert share_of_later([fuse], [weights], promises, for_size=False) == 0.0


def test_settings_that_hold_take_no_time_from_fusions(promises):
    promises.note_ratio(step("settings", Stage.TUNE), 0.5)
    promises.note_held(step("settings", Stage.TUNE))
    assert (
        share_of_later([planned("fuse", Stage.FUSE)], [planned("settings", Stage.TUNE)], promises, for_size=False) == 0
    )


def test_what_time_ran_out_for_says_so_and_what_was_tried_keeps_its_reason():
    from optim._engine.gate.drift import Drift
    from optim._engine.search.state import Candidate
    from optim.model import Model

    original = Candidate(Model("m.onnx", "m", (), (), {"": 17}, 9), 100)
    journal = Board(Budget(0.05, 1e-4), SIZE)
    waiting, wrong, held = (journal.open(step(name), original) for name in ("waiting", "wrong", "held"))
    wrong.settle(StepStatus.DROPPED, "it is wrong")
    held.drift = Drift(0.01, 0.0, 1.0)
    run_out(legs(planned("waiting")), journal, original)
    assert (waiting.status, waiting.reason) == (StepStatus.SKIPPED, OUT_OF_TIME)
    assert (wrong.reason, held.reason) == ("it is wrong", "")
