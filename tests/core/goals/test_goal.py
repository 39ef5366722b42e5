"""Goals of optim and of plugins: found by name, with the clock that runs in a lane."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest
from all_goals import GOALS

from optim._engine.goals.known import OWN_GOALS, find_goal, release_of
from optim._engine.jobs.lane import LaneClock
from optim._engine.plugins.checks import class_defect
from optim._engine.plugins.plugin import PluginInfo
from optim._engine.plugins.registry import load_registry
from optim._engine.search.plan import make_plan
from optim._engine.search.settings import RunSettings
from optim.errors import OptimError
from optim.goal import Basis, Figure, Goal, GoalClock, ModelFigures, Ratio, Timer
from optim.hooks import RESERVED_NAMES

ACME = PluginInfo("acme", "optim-plugin-acme", "1.0", "acme.plugin")


@dataclass(frozen=True, slots=True)
class EnergyClock(GoalClock):
    joules: float

    def start(self, subject):
        return Meter(self.joules)


class Meter(Timer):
    def __init__(self, joules):
        self.joules = joules

    def round(self):
        if self.joules > 99:
            raise ZeroDivisionError("no meter")
        return Figure(self.joules)


class Energy(Goal):
    name = "acme-energy"
    summary = "joules of an answer"

    def clock(self, asked):
        return EnergyClock(0.5)


@pytest.fixture
def registry():
    found = load_registry(only={"ort"})
    found._named["goal"] = {Energy.name: SimpleNamespace(value=Energy, plugin=ACME)}
    return found


def test_a_plugins_goal_is_found_by_its_name_and_plans_a_run(registry):
    goal = find_goal(registry, "acme-energy")
    assert (type(goal), release_of(registry, goal)) == (Energy, ACME.release)
    assert release_of(registry, find_goal(registry, "latency")) == ""
    settings = RunSettings(Path("m.onnx"), goal="acme-energy")
    assert "ort.fuse-transformer" in make_plan(settings, registry, registry.target("cpu")).names


def test_a_goal_that_nobody_offers_is_refused_with_the_near_ones(registry):
    with pytest.raises(OptimError) as refused:
        find_goal(registry, "acme-enery")
    assert refused.value.reference == "unknown-goal" and "acme-energy" in refused.value.cause


def test_a_clock_travels_to_its_lane():
    clock = LaneClock.of("acme-energy", EnergyClock(0.5), ACME.release)
    assert clock.settings == {"joules": 0.5}
    assert clock.round(clock.start(None)) == Figure(0.5)


@pytest.mark.parametrize(
    ("joules", "cause"), [(100.0, "no meter"), (float("nan"), "nan"), (0.0, "0.0"), (-1.0, "-1.0")]
)
def test_a_clock_that_gives_no_seconds_is_named_with_its_plugin(joules, cause):
    clock = LaneClock.of("acme-energy", EnergyClock(joules), ACME.release)
    with pytest.raises(OptimError) as failed:
        clock.round(clock.start(None))
    assert (failed.value.reference, failed.value.package) == ("goal-failed", ACME.release)
    assert cause in failed.value.cause


@pytest.mark.parametrize(
    ("changes", "defect"),
    [
        ({}, ""),
        ({"clock": Goal.clock}, "has no clock of its own"),
        ({"basis": Basis.SIZE}, "has no clock of its own"),
        ({"summary": ""}, "summary"),
        ({"words": "faster"}, "must be Words"),
        ({"name": "startup"}, "reserved for plugin goals"),
        ({"name": "Energy"}, "lower case"),
    ],
)
def test_what_a_plugin_offers_as_a_goal_is_checked(changes, defect):
    found = class_defect("goal", type("Changed", (Energy,), changes), ACME)
    assert defect in found and bool(found) == bool(defect)


def test_every_goal_of_optim_has_a_reserved_name():
    found = load_registry()
    owners = dict.fromkeys(OWN_GOALS, "optim") | {name: o.plugin.name for name, o in found.offered("goal").items()}
    assert {name: owners.get(name) for name in RESERVED_NAMES["goal"]} == RESERVED_NAMES["goal"]


def test_a_goal_of_a_package_that_is_missing_names_the_line_that_installs_it(registry):
    with pytest.raises(OptimError) as refused:
        find_goal(registry, "throughput")
    assert "plugin goals, which is not installed" in refused.value.cause
    assert refused.value.fix == "in a clone of optim: pip install ./plugins"


@pytest.mark.parametrize(
    ("name", "better", "same"),
    [
        ("latency", ModelFigures(9, calls=Ratio(0.9, 0.8, 0.99, 9)), ModelFigures(1, calls=Ratio(0.9, 0.8, 1.1, 9))),
        ("size", ModelFigures(90), ModelFigures(99_999)),
        ("memory", ModelFigures(9, 90), ModelFigures(1, 99)),
        ("startup", ModelFigures(9, clock=Ratio(0.9, 0.8, 0.99, 9)), ModelFigures(1, calls=Ratio(0.1, 0.1, 0.1, 9))),
    ],
)
def test_a_goal_is_reached_beyond_the_noise(name, better, same):
    original = ModelFigures(100_000, 100)
    assert GOALS[name].is_reached(better, original)
    assert not GOALS[name].is_reached(same, original)
    assert not GOALS[name].is_reached(ModelFigures(100_000), original)
