"""Made-up samples of the user's number, sizes and mask, for ``optim verify`` and ``optim bench``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, save

import optim
from optim._engine.api.given import MadeUp, sized_data
from optim._engine.cli.verbs.verify import verify
from optim.errors import OptimError
from optim_plugins.diagnose.bench.command import bench


@pytest.fixture
def encoder(tmp_path: Path) -> Path:
    """Ids and their mask, added up."""
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "sequence"])
        for name in ("input_ids", "attention_mask")
    ]
    output = helper.make_tensor_value_info("y", TensorProto.INT64, ["batch", "sequence"])
    node = helper.make_node("Add", ["input_ids", "attention_mask"], ["y"])
    graph = helper.make_graph([node], "g", inputs, [output])
    save(helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 18)]), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


@pytest.fixture
def made(encoder: Path) -> Callable[..., list[dict[str, Any]]]:
    """The samples that are made up as asked."""

    def make(**asked: Any) -> list[dict[str, Any]]:
        with sized_data(encoder, MadeUp(**asked), None, 0) as path, np.load(str(path)) as arrays:
            numbers = sorted({int(name.partition("/")[0]) for name in arrays})
            return [
                {name: arrays[f"{number}/{name}"] for name in ("input_ids", "attention_mask")} for number in numbers
            ]

    return make


def test_there_are_as_many_samples_as_asked_for_in_the_sizes_that_are_named(made: Any) -> None:
    found = made(samples=3, sizes={"batch": 2, "sequence": 20})
    assert [one["input_ids"].shape for one in found] == [(2, 20)] * 3
    assert not np.array_equal(found[0]["input_ids"], found[1]["input_ids"])
    assert len(made(mask="full")) == 8


@pytest.mark.parametrize(("mask", "shown"), [("full", (1, 1)), ("end", (1, 0)), ("start", (0, 1))])
def test_a_mask_hides_one_side_of_each_row(made: Any, mask: str, shown: tuple[int, int]) -> None:
    for sample in made(sizes={"batch": 3}, mask=mask):
        ends = sample["attention_mask"][:, [0, -1]]
        assert ends.tolist() == [list(shown)] * 3
        if mask != "full":
            assert (sample["input_ids"][sample["attention_mask"] == 0] == 0).all()


@pytest.mark.parametrize(
    ("asked", "data", "reference"),
    [
        ({"samples": 2}, "x.npz", "conflicting-request"),
        ({"mask": "middle"}, None, "bad-samples"),
        ({"samples": 10**9}, None, "bad-samples"),
        ({"sizes": {"height": 3}}, None, "unknown-dimension"),
    ],
)
def test_what_cannot_be_made_up_is_refused(encoder: Path, asked: Any, data: str | None, reference: str) -> None:
    with pytest.raises(OptimError) as refused, sized_data(encoder, MadeUp(**asked), data, 0):
        pass
    assert refused.value.reference == reference


def test_a_mask_is_refused_where_there_is_none(tmp_path: Path) -> None:
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", info[:1], info[1:])
    save(helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 18)]), tmp_path / "m.onnx")
    made = sized_data(tmp_path / "m.onnx", MadeUp(mask="end"), None, 0)
    with pytest.raises(OptimError, match="does not fit") as refused, made:
        pass
    assert refused.value.reference == "no-mask"


def test_the_commands_hand_on_what_the_user_says(encoder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []

    def stop(*_: Any, samples: int, sizes: dict[str, int], mask: str, **__: Any) -> None:
        told.append((samples, sizes, mask))
        raise OptimError("stop", "it was told", "", "")

    monkeypatch.setattr("optim._engine.api.verify.verify", stop)
    monkeypatch.setattr("optim._engine.api.bench.bench", stop)
    words = ["--samples", "3", "--size", "batch=2", "--size", "sequence=9", "--mask", "end"]
    for command in (verify, bench):
        CliRunner().invoke(command, [str(encoder), str(encoder), *words])
    assert told == [(3, {"batch": 2, "sequence": 9}, "end")] * 2
    wrong = CliRunner().invoke(verify, [str(encoder), str(encoder), "--size", "batch=0"])
    assert "'batch=0' is not NAME=N with N of 1 or more" in wrong.output


def test_verify_compares_on_them_and_says_how_they_were_made(encoder: Path, jobs_here: None) -> None:
    found = optim.verify(encoder, encoder, samples=2, sizes={"batch": 3, "sequence": 7}, mask="end")
    assert found.outputs[0].shape == (3, 7)
    assert (found.feeds.samples, found.feeds.origin) == (2, "synthesized, batch=3, sequence=7, mask end")


def test_a_mask_that_hides_nothing_is_said_to_test_no_mask() -> None:
    """A model that ignores its mask is equal under it."""
    assert "use of the mask is not tested" in MadeUp(mask="full").text
    assert MadeUp(mask="end").text == "synthesized, mask end"


def test_sizes_that_the_model_does_not_take_are_said_to_need_other_sizes(tmp_path: Path, jobs_here: None) -> None:
    info = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "sequence"]) for name in ("input_ids", "y")
    ]
    table = helper.make_tensor("positions", TensorProto.INT64, [32], range(32))
    computed = helper.make_node("Abs", ["positions"], ["absolute"])  # a plain table would tell its size
    node = helper.make_node("Add", ["input_ids", "absolute"], ["y"])
    graph = helper.make_graph([computed, node], "g", info[:1], info[1:], [table])
    path = tmp_path / "m.onnx"
    save(helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 18)]), path)
    with pytest.raises(OptimError, match="prepare-failed") as refused:
        optim.verify(path, path, samples=2)
    assert "--size" in refused.value.fix
    assert "--data" not in refused.value.fix
    assert optim.verify(path, path, samples=2, sizes={"sequence": 32}).outputs[0].shape == (1, 32)
