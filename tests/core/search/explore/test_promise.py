"""The gain to expect of a candidate: from what its pass gained and cost before, else by its kind."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest

from optim._engine.search.explore.promise import Promises
from optim._engine.search.state import Step
from optim._engine.search.time_estimate import PassCosts
from optim.passes import Role, Stage


def step(name, stage=Stage.QUANTIZE, **options):
    return Step(stage, name, "plugin", options, Role.IMPROVE, lossy=stage is Stage.QUANTIZE)


def planned(name):
    return SimpleNamespace(name=name)


@pytest.fixture
def promises():
    return Promises(60.0)


def test_what_nobody_tried_goes_by_its_stage(promises):
    assert promises.gain(step("q")) > promises.gain(step("c", Stage.CONVERT_PRECISION))
    assert promises.gain(step("c", Stage.CONVERT_PRECISION)) > promises.gain(step("f", Stage.FUSE))


def test_a_pass_that_calibrates_is_expected_to_take_longer_until_that_is_known():
    names = ("plain", "calibrating")
    promises = Promises(60.0, calibrating=names[1:])
    assert promises.expected_s("calibrating") == 4 * promises.expected_s("plain")
    assert Promises(60.0, PassCosts({"calibrating": 1.0}), names[1:]).expected_s("calibrating") == 1.0
    promises.note_seconds("calibrating", 1.0)
    assert promises.expected_s("calibrating") == 1.0


def test_what_a_step_gained_elsewhere_counts_before_what_its_pass_gained(promises):
    promises.note_ratio(step("q", bits=8), 0.5)
    promises.note_ratio(step("q", bits=4), 0.9)
    assert promises.gain(step("q", bits=4)) < promises.gain(step("q", bits=2)) == promises.gain(step("q", bits=8))


def test_what_nobody_timed_promises_what_its_pass_gained_less_what_its_kernels_lose(promises):
    fast, slow = step("ort.quantize-dynamic", bits=8), step("ort.quantize-dynamic", bits=16)
    promises.expect(fast, math.log(4))
    promises.expect(slow, math.log(2))
    promises.note_ratio(fast, 0.5)
    assert promises.gain(slow) == pytest.approx(math.log(2) - math.log(2))
    assert promises.gain(step("ort.quantize-dynamic", bits=4)) == pytest.approx(math.log(2))  # kernels unknown


def test_a_pass_that_is_slower_by_itself_is_tried_on_as_long_as_it_costs_little(promises):
    promises.note_ratio(step("f", Stage.FUSE), 1.31)
    assert promises.reason_against(planned("f")) == ""
    promises.note_seconds("f", 9.0)
    assert promises.reason_against(planned("f")).startswith(
        "its first candidate took 9 s and latency ratio 1.31: other passes promise more in that time"
    )


def test_a_slow_pass_of_which_nothing_came_is_not_tried_again_and_one_that_held_is(promises):
    promises.note_seconds("slow", 22.0)
    assert promises.reason_against(planned("slow")).startswith(
        "its first candidate took 22 s and led to no valid model"
    )
    promises.note_held("slow")
    assert promises.reason_against(planned("slow")) == ""
    promises.note_ratio(step("slow"), 0.97)
    assert promises.reason_against(planned("slow")).startswith("its first candidate took 22 s and latency ratio 0.97")
    promises.note_ratio(step("slow"), 0.6)
    assert promises.reason_against(planned("slow")) == ""


def test_a_step_without_known_kernels_promises_what_its_run_in_the_comparison_gained(promises):
    parent, clean = SimpleNamespace(digest="original"), step("clean", Stage.FUSE)
    guess = promises.gain(clean)
    promises.note_run(parent, clean, run_s=0.45, original_s=0.5)
    assert promises.gain(clean) == guess
    promises.note_run(parent, clean, run_s=0.15, original_s=0.5)
    assert promises.gain(clean) == pytest.approx(math.log(0.5 / 0.15))
    promises.note_ratio(clean, 1.0)
    assert promises.gain(clean) == 0.0
