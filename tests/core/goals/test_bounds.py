"""Bounds on size, memory and latency: what they say, when a model meets one, and what a pick takes of them."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace

import pytest
from all_goals import GOALS
from boards import timed_at

from optim._engine.api.request import require_run, settings_from
from optim._engine.gate.drift import Drift
from optim._engine.goals.bounds import Bound, BoundVerdict, fields_of, merged, parse_bound, require_bounds, said_bounds
from optim._engine.recipes.recipe import BudgetTable
from optim._engine.runs.pick import Pick
from optim._engine.search.objective import Objective
from optim._engine.search.state import ITSELF, Candidate, LaneResult, Measured, Step
from optim._engine.search.targets.contest import Contest, Entrant, _may_beat
from optim.errors import OptimError
from optim.goal import Amount, ModelFigures, Ratio
from optim.model import Model, SessionConfig
from optim.passes import Role, Stage


@pytest.mark.parametrize(
    ("figure", "said", "most"),
    [
        *[("size", text, 5e7) for text in ("50MB", "50 mb", "0.05GB", "5e7", 50_000_000, "50m")],
        ("memory", "1GiB", 2.0**30),
        ("size", "2KiB", 2048.0),
        *[("latency", text, 20.0) for text in ("20ms", "20", 20, "0.02s", "20000us", "20000\u00b5s", "20000\u03bcs")],
    ],
)
def test_a_bound_has_a_unit_or_is_bytes_or_milliseconds(figure, said, most):
    assert parse_bound(figure, said).most == pytest.approx(most)


@pytest.mark.parametrize(
    ("figure", "said"),
    [
        *[("size", text) for text in ("0", "-5MB", "20ms", "big", "", "nan", "inf", "1e400", "1..2MB", "50MBps")],
        *[("latency", text) for text in ("20MB", "0", -1, math.nan, "1 minute")],
    ],
)
def test_what_is_no_bound_is_refused_with_one_that_is(figure, said):
    with pytest.raises(OptimError) as refused:
        parse_bound(figure, said)
    assert refused.value.reference == "bad-budget"
    assert parse_bound(figure, refused.value.fix.split()[-1])


def test_a_bound_is_written_as_it_can_be_typed():
    for bound in (Bound("size", 5e7), Bound("memory", 2.0**30), Bound("size", 999.0), Bound("latency", 0.5)):
        option, text = bound.text.split()
        assert option == f"--max-{bound.figure}"
        assert parse_bound(bound.figure, text).most == pytest.approx(bound.most, rel=1e-5)


@pytest.mark.parametrize(
    ("amount", "standing"),
    [
        (Amount(18.0, 17.0, 19.9), BoundVerdict.MEETS),
        (Amount(19.0, 17.0, 20.1), BoundVerdict.UNDECIDED),
        (Amount(18.0, 17.0, 19.0, is_sure=False), BoundVerdict.UNDECIDED),
        (Amount(22.0, 20.1, 23.0), BoundVerdict.BEYOND),
        (None, BoundVerdict.UNDECIDED),
    ],
)
def test_latency_meets_a_bound_only_if_all_of_its_interval_does(amount, standing):
    bound, found = Bound("latency", 20.0), ModelFigures(1, latency=amount)
    assert bound.standing(found) is standing
    assert bool(bound.objection(found)) == (standing is not BoundVerdict.MEETS)
    assert (bound.excess(found) > 0) == (standing is BoundVerdict.BEYOND)


def test_memory_is_undecided_within_what_processes_differ_by():
    bound = Bound("memory", 100.0)
    found = [bound.standing(ModelFigures(1, peak)) for peak in (97, 99, 103, 0)]
    assert found == [BoundVerdict.MEETS, BoundVerdict.UNDECIDED, BoundVerdict.BEYOND, BoundVerdict.UNDECIDED]


def test_the_users_bounds_override_those_of_a_recipe_by_figure():
    settings, _ = settings_from(
        Path("m.onnx"),
        None,
        {"goal": "accuracy", "budget": {"max_size": "50MB", "max_latency_ms": 20.0}},
        {"max_size": "40MB"},
        trust_code=True,
    )
    assert settings.bounds == (Bound("size", 4e7), Bound("latency", 20.0))
    assert said_bounds(dict(BudgetTable(**fields_of(settings.bounds)))) == settings.bounds
    assert merged(settings.bounds, [Bound("memory", 1.0)])[1] == Bound("memory", 1.0)


@pytest.mark.parametrize(
    ("goal", "bounds", "untimed", "said"),
    [
        ("accuracy", (), (), "--goal accuracy needs a bound"),
        ("latency", (Bound("latency", 9.0),), ("qnn",), "--max-latency 9ms cannot be judged on target qnn"),
        ("latency", (Bound("memory", 9e6),), ("qnn",), "--max-memory 9MB cannot be judged on target qnn"),
        ("accuracy", (Bound("size", 9e6),), ("qnn",), "--goal accuracy cannot be decided on target qnn"),
        ("latency", (Bound("size", 9e6),), ("qnn",), ""),
    ],
)
def test_what_cannot_be_judged_is_refused_at_once(goal, bounds, untimed, said):
    if not said:
        return require_bounds(GOALS[goal], bounds, untimed)
    with pytest.raises(OptimError, match=said) as refused:
        require_bounds(GOALS[goal], bounds, untimed)
    assert refused.value.reference == "conflicting-request"
    return None


def model(name, size, drift=0.0, *, steps=1):
    step = Step(Stage.QUANTIZE, name, "ort", {}, Role.IMPROVE, lossy=True)
    opened = Model(Path(name), name, (), (), 17, SessionConfig())
    return Candidate(opened, size, (step,) * steps, drift=Drift(drift, drift, 1.0))


def timed(candidate, ms, ratio=0.5):
    return timed_at(candidate, ratio, rounds=9, latency_ms=ms, latency_ci_ms=(0.95 * ms, 1.05 * ms))


def test_the_best_is_the_most_accurate_within_the_bounds():
    original = model("original", 100, steps=0)
    base = LaneResult(ratio=Ratio(1.0, 1.0, 1.0, 9), latency_ms=30.0, latency_ci_ms=(29.0, 31.0))
    objective = Objective(GOALS["accuracy"], True, (Bound("size", 50.0), Bound("latency", 20.0)), base)
    near, far = timed(model("near", 50, 0.01), 19.0), timed(model("far", 20, 0.09), 9.0)
    large, slow = timed(model("large", 51, 0.001), 9.0), timed(model("slow", 20, 0.001), 19.5)
    reached = [one for one in (near, far, large, slow) if objective.is_reached(one, original)]
    assert min(reached, key=objective.figure) is near and reached == [near, far]
    assert "size 51 B is beyond --max-size 50B" in objective.objection(large)
    assert "latency 19.5 ms [18.5, 20.5]: --max-latency 20ms is undecided" in objective.objection(slow)
    assert not objective.is_reached(Measured(original, ITSELF), original)


def test_a_bound_that_the_original_breaks_is_reached_by_a_slower_model():
    original, slower = model("original", 100, steps=0), timed(model("slower", 40, 0.01), 30.0, ratio=1.5)
    assert not Objective(GOALS["latency"], True).is_reached(slower, original)
    assert Objective(GOALS["latency"], True, (Bound("size", 50.0),)).is_reached(slower, original)
    assert not Objective(GOALS["latency"], True, (Bound("size", 200.0),)).is_reached(slower, original)


def test_goal_size_needs_races_if_a_bound_is_on_another_figure():
    assert Objective(GOALS["size"], True, (Bound("size", 9.0),)).is_size
    assert not Objective(GOALS["size"], True, (Bound("size", 9.0), Bound("latency", 9.0))).is_size


def test_of_several_targets_one_whose_best_breaks_a_bound_comes_last():
    objective = Objective(GOALS["latency"], True, (Bound("size", 50.0),))
    contest, board = object.__new__(Contest), SimpleNamespace(objective=objective, figure=lambda item: item.ratio)
    contest.entrants = []
    for name, size, ratio in (("fast", 60, 0.1), ("slow", 40, 0.9)):
        bench = SimpleNamespace(target=SimpleNamespace(name=name))
        one = Entrant(bench, None, ranking=[timed(model(name, size), 9.0, ratio)])
        one.beam = SimpleNamespace(board=board)
        contest.entrants.append(one)
    fast, slow = contest.entrants
    assert contest._order() == [slow, fast]
    assert not _may_beat(fast, slow.ranking[0], slow)


def test_a_goal_with_a_latency_limit_of_its_own_keeps_to_it_itself():
    bounds = (Bound("size", 50.0), Bound("latency", 20.0))
    assert Objective(GOALS["throughput"], True, bounds).bounds == bounds[:1]
    assert Objective(GOALS["startup"], True, bounds).bounds == bounds


@pytest.mark.parametrize(
    ("said", "word", "bounds"),
    [
        ("smallest", "smallest", ()),
        ("3", "3", ()),
        ("max-size=50MB", "most-accurate", (Bound("size", 5e7),)),
        ("fastest,max-size=50MB,max-latency=2s", "fastest", (Bound("size", 5e7), Bound("latency", 2000.0))),
    ],
)
def test_a_pick_takes_words_for_bounds(said, word, bounds):
    assert Pick.parse(said) == Pick(word, bounds)


@pytest.mark.parametrize("said", ["", "0", "quickest", "3,max-size=5MB", "fastest,smallest", "max-width=3"])
def test_a_pick_that_names_no_point_is_refused(said):
    with pytest.raises(OptimError) as refused:
        Pick.parse(said)
    assert refused.value.reference == "unknown-point"


def test_a_run_refuses_a_latency_bound_on_a_target_that_cannot_be_timed(tmp_path):
    (tmp_path / "m.onnx").write_bytes(b"x")
    settings, _ = settings_from(
        tmp_path / "m.onnx", None, None, {"target": "cuda-offline", "max_latency_ms": "20ms"}, trust_code=True
    )
    with pytest.raises(OptimError, match="--max-latency 20ms cannot be judged on target cuda-offline"):
        require_run(settings)
