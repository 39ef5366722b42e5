"""Values cross processes and the cache as JSON and come back equal."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from pydantic import Field, ValidationError
from sample_outcome import budget_missed, improved, unchanged

from optim._engine.gate.outputs import compare_output
from optim._engine.jobs.start_up import Ready
from optim._engine.reports.outcome import Outcome
from optim._engine.search.settings import Named, RunSettings
from optim._engine.search.state import Attempt, LaneResult, Step, StepStatus
from optim.goal import Ratio
from optim.jobs.wire import from_wire, to_wire
from optim.model import SessionConfig
from optim.options import PassOptions
from optim.passes import Interface, Role, Stage


def round_trip(value, kind=None):
    return from_wire(kind or type(value), json.loads(json.dumps(to_wire(value))))


INFINITE = compare_output("y", [1.0, 2.0], [1.0, math.inf])
"""Infinity in four of its figures."""


def test_infinity_is_kept():
    assert INFINITE.relative_error == math.inf
    assert round_trip(INFINITE) == INFINITE


def test_infinity_is_kept_inside_of_lists_and_of_values_of_any_type():
    lane = LaneResult(ready=Ready((INFINITE,), 1, {"cpu": 1.0}, (0.1,)), ratio=Ratio(math.nan, 0.0, math.inf, 1))
    (back,) = round_trip([lane], list[LaneResult])
    assert back.ready == lane.ready
    assert math.isnan(back.ratio.value)
    assert back.ratio.high == math.inf
    step = Step(Stage.TUNE, "a.b", "a", {"clip": math.inf, "keep": ("x",)}, Role.IMPROVE, False)
    assert round_trip(step).options["clip"] == math.inf


def test_none_stays_none():
    attempt = Attempt(Step(Stage.FUSE, "a.b", "a", {"x": None}, Role.ENABLE, True), (("c.d", "[]"),))
    back = round_trip(attempt)
    assert back == attempt
    assert (back.ratio, back.drift, back.status) == (None, None, StepStatus.SKIPPED)


def test_settings_come_back_equal():
    settings = RunSettings(
        source=Path("a.onnx"),
        named=(Named("a.b", {"keep": ["n"], "depth": 3}), Named("c.d")),
        without=("e.f",),
        stages=(Stage.FUSE,),
        chain=(),
        search_seconds=math.inf,
    )
    assert round_trip(settings) == settings


@pytest.mark.slow
def test_the_same_request_has_the_same_key_in_every_process():
    """Sets have another order in every process, so none may be in what keys are made of."""
    script = (
        "from pathlib import Path\nfrom optim._engine.cli.request import settings_of; from optim.jobs import to_wire\n"
        "print(to_wire(settings_of(Path('m.onnx'), None, {'without': tuple('gfedcba')})[0]))"
    )
    keys = {
        subprocess.run(
            [sys.executable, "-c", script], env={**os.environ, "PYTHONHASHSEED": seed}, check=True, capture_output=True
        ).stdout
        for seed in "123"
    }
    assert len(keys) == 1


def test_session_settings_keep_true_apart_from_one():
    config = SessionConfig({"enable_mem_pattern": True, "intra_op_num_threads": 1, "level": "1"}, {"a": "1"}, ("X",))
    back = round_trip(config)
    assert back == config
    assert [type(value) for value in back.session_options.values()] == [bool, int, str]


@pytest.mark.parametrize("made", [improved, unchanged, budget_missed])
def test_a_whole_outcome_comes_back_equal(made):
    assert round_trip(made(), Outcome) == made()


def test_options_of_a_pass_are_plain_values():
    class Options(PassOptions):
        keep: tuple[str, ...] = Field((), description="names")
        clip: float = Field(math.inf, description="a number")

    assert to_wire(Options(keep=("a", "b"))) == {"keep": ["a", "b"], "clip": math.inf}


@pytest.mark.parametrize("data", [{}, {"feeds": 3}, {"feeds": "a:b", "parameters": []}, "text", None])
def test_what_does_not_fit_is_refused(data):
    if data == {}:
        assert from_wire(Interface, data) == Interface()
        return
    with pytest.raises(ValidationError):
        from_wire(Interface, data)


def test_what_is_no_plain_value_is_refused():
    @dataclass
    class Odd:
        value: object

    with pytest.raises(ValueError, match="object"):
        to_wire(Odd(object()))
