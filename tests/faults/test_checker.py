"""The checker of cases sees what it is there for."""

from __future__ import annotations

import pytest
from case import Case, check_end, hold
from world import Done

OK, BAD = '{"error": {"reference": "model-empty", "cause": "c", "fix": "f"}}', "error[model-empty]: it is empty"


@pytest.mark.parametrize(
    "done",
    [
        Done(1, OK, BAD),
        Done(3, "", BAD),
        Done(3, "not json", BAD),
        Done(3, OK, f"Traceback (most recent call last):\n{BAD}"),
        Done(3, OK, f"\x1b]0;title\x07{BAD}"),
        Done(3, OK.replace("model-empty", "something-else"), BAD),
        Done(3, OK.replace('"c"', '""'), BAD),
        Done(3, OK.replace('"f"', '""'), BAD),
    ],
)
def test_a_wrong_end_is_seen(done):
    case = Case("an empty file", reference=("model-empty",))
    check_end(case, Done(3, OK, BAD))
    with pytest.raises((AssertionError, ValueError)):
        check_end(case, done)


def test_a_file_that_appears_beside_out_is_seen(world):
    case = Case("a model that is not there", reference=("model-missing",))
    hold(case, world)
    spoil = Case("it leaves a file", reference=("model-missing",), command=case.command)
    run = world.run
    world.run = lambda arguments: (world.work.joinpath("left").touch(), run(arguments))[1]
    with pytest.raises(AssertionError, match="work/left"):
        hold(spoil, world)


def test_an_earlier_result_that_is_touched_is_seen(world):
    run = world.run
    world.run = lambda arguments: (world.out.joinpath("model.onnx").write_text("gone"), run(arguments))[1]
    with pytest.raises(AssertionError, match="OUT"):
        hold(Case("a model that is not there", reference=("model-missing",)), world)
