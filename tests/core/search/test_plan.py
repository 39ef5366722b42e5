"""Which passes a run considers, in which order, and why others are not shown: nothing is skipped without a word."""

from __future__ import annotations

from pathlib import Path

import pytest
from installed_plugin import installed

from optim._engine.plugins.registry import load_registry
from optim._engine.search.plan import make_plan, slots
from optim._engine.search.settings import Named, RunSettings
from optim.errors import ExitStatus, OptimError
from optim.passes import MODEL_STAGES, Stage


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    with installed(tmp_path_factory.mktemp("plan"), "timed_plugin"):
        yield load_registry(only=["goals", "ort", "timed"])


@pytest.fixture(scope="module")
def plan_of(registry):
    return lambda **changes: make_plan(RunSettings(source=Path("m.onnx"), **changes), registry, registry.target("cpu"))


def considered(plan):
    return [planned.name for passes in plan.stages.values() for planned in passes]


def reasons(plan):
    return {left_out.offered.name: left_out.reason for left_out in plan.left_out}


def test_stages_come_in_their_order_and_every_pass_is_considered_or_left_out(plan_of, registry):
    plan = plan_of()
    assert list(plan.stages) == [stage for stage in MODEL_STAGES if stage in plan.stages]
    offered = {one.name for one in registry.offers(registry.target("cpu"))}
    assert {*considered(plan), *reasons(plan)} == offered
    assert not set(considered(plan)) & set(reasons(plan))


def test_a_requested_pass_is_left_out_until_it_is_named(plan_of):
    assert reasons(plan_of())["timed.rename"] == "it only runs if --with names it"
    plan = plan_of(named=(Named("timed.rename"),))
    assert [planned.name for planned in plan.forced()] == ["timed.rename"]
    assert "timed.rename" not in reasons(plan)


def test_a_named_pass_of_another_stage_runs_all_the_same(plan_of):
    plan = plan_of(stages=(Stage.QUANTIZE,), named=(Named("timed.drop-a"),))
    assert [planned.name for planned in plan.stages[Stage.FUSE]] == ["timed.drop-a"]


@pytest.mark.parametrize(
    ("changes", "name", "reason"),
    [
        ({"without": ("timed.drop-a",)}, "timed.drop-a", "left out by --without"),
        ({"stages": (Stage.QUANTIZE,)}, "timed.drop-a", "stage fuse is not in --stage"),
        ({"lossless": True}, "timed.round", "it is lossy, and --lossless excludes it"),
        ({"lossless": True}, "ort.quantize-dynamic", "it is lossy, and --lossless excludes it"),
        (
            {"named": (Named("timed.round"),)},
            "timed.round-heavily",
            "timed.round was asked for, and they exclude each other",
        ),
    ],
)
def test_what_is_left_out_says_why(plan_of, changes, name, reason):
    plan = plan_of(**changes)
    assert reasons(plan)[name] == reason
    assert name not in considered(plan)


def test_passes_of_one_group_stand_in_one_slot(plan_of):
    rows = [[planned.name for planned in slot] for slot in slots(plan_of().stages[Stage.QUANTIZE])]
    assert ["timed.round", "timed.round-heavily"] in rows
    assert ["timed.drop-b"] in rows


@pytest.mark.parametrize(
    ("changes", "reference", "says"),
    [
        ({"named": (Named("timed.round"), Named("timed.round-heavily"))}, "conflicting-request", "exclude each other"),
        ({"named": (Named("timed.round"),), "lossless": True}, "conflicting-request", "--lossless excludes it"),
        ({"named": (Named("timed.drop-a"),), "without": ("timed.drop-a",)}, "conflicting-request", "--without"),
        ({"named": (Named("timed.rond"),)}, "unknown-pass", "timed.round"),
        ({"without": ("timed.dropa",)}, "unknown-pass", "timed.drop-a"),
        ({"named": (Named("timed.round", {"strenght": 1}),)}, "unknown-option", "strength"),
        ({"named": (Named("timed.round", {"strength": -1}),)}, "bad-option", "greater than 0"),
        ({"named": (Named("timed.drop-a", {"strength": 1}),)}, "unknown-option", "strength"),
    ],
)
def test_a_request_that_cannot_be_met_is_one_clear_error(plan_of, changes, reference, says):
    with pytest.raises(OptimError) as caught:
        plan_of(**changes)
    assert caught.value.reference == reference
    assert caught.value.status is ExitStatus.USAGE
    assert says in str(caught.value)


def test_settings_of_a_session_are_not_tried_where_size_is_the_goal(plan_of):
    plan = plan_of(goal="size")
    assert reasons(plan)["ort.tune-session"] == (
        "it only changes session settings, and they do not change the size (--goal size)"
    )
    assert Stage.TUNE not in plan.stages
    assert "ort.tune-session" in considered(plan_of(goal="size", named=(Named("ort.tune-session"),)))


def test_a_pass_that_is_tried_for_another_goal_is_no_row_of_the_terminal(plan_of):
    not_here = {left_out.offered.name for left_out in plan_of().left_out if left_out.not_here}
    assert "ort.pack-weights" in not_here
    assert "ort.pack-weights" in considered(plan_of(goal="startup"))
    assert "ort.pack-weights" in considered(plan_of(named=(Named("ort.pack-weights"),)))
