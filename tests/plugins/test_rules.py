"""Passes by declaration: they fire, say why not, and a wrong one does not pass the gate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import loaded_once
import numpy as np
import onnx
import onnxruntime
import pytest

import optim
from optim import Role, Target, hookimpl
from optim.onnx import read_ir
from optim_plugins.diagnose import plugin
from optim_plugins.rules import rewrite_pass
from optim_testing.example import write_example


def written(op: Any, x: Any) -> Any:
    return op.Div(x, op.Add(op.Abs(x), 1.0))


def softsign(op: Any, x: Any) -> Any:
    return op.Softsign(x)


def tanh(op: Any, x: Any) -> Any:
    return op.Tanh(x)


EXAMPLE = {"x": ("batch", 32)}
RIGHT = rewrite_pass("diagnose.softsign", written, softsign, example=EXAMPLE)
WRONG = rewrite_pass("diagnose.wrong", written, tanh, example=EXAMPLE, role=Role.REQUESTED)


def last_axis(op: Any, x: Any, axis: Any) -> Any:
    return op.Identity(op.Softmax(x, axis=axis))


def plain(op: Any, x: Any, axis: Any) -> Any:
    return op.Softmax(x, axis=axis)


def is_last(context: Any, axis: Any, **_: Any) -> bool:
    return bool(axis.as_int() == -1)


def changed(path: Path, **constants: float) -> Any:
    """The model with another constant in place of 1."""
    model = onnx.load(path)
    constant = next(node for node in model.graph.node if node.op_type == "Constant")
    constant.attribute[0].t.CopyFrom(onnx.numpy_helper.from_array(np.float32(constants["one"])))
    onnx.save(model, path)
    return read_ir(path)


def test_the_example_is_the_pattern_and_the_replacement_computes_the_same(tmp_path: Path) -> None:
    path = write_example(RIGHT.pattern, RIGHT.example, tmp_path)
    x = np.random.default_rng(0).standard_normal((2, 32)).astype(np.float32)
    before = onnxruntime.InferenceSession(path).run(None, {"x": x})[0]
    graph = read_ir(path)
    assert RIGHT()._rewrite(graph) == (1, "")
    assert [node.op_type for node in graph.graph] == ["Softsign"]
    np.testing.assert_allclose(before, x / (1 + np.abs(x)), rtol=1e-6)
    assert RIGHT()._rewrite(graph)[0] == 0


def test_a_near_miss_says_where_and_why(tmp_path: Path) -> None:
    path = write_example(RIGHT.pattern, RIGHT.example, tmp_path)
    count, why = RIGHT()._rewrite(changed(path, one=2.0))
    assert count == 0
    assert "nearest at Div_" in why
    assert "expected 1.0, got 2.0" in why
    assert WRONG()._rewrite(read_ir(write_example(plain, {"x": (2, 3), "axis": 1}, tmp_path))) == (
        0,
        "the graph has nothing like Div(x, Add(Abs(x), 1.0))",
    )


def test_attributes_that_the_pattern_does_not_name_are_a_miss(tmp_path: Path) -> None:
    without = rewrite_pass("diagnose.a", lambda op, x: op.Neg(op.Softmax(x)), softsign, example=EXAMPLE)
    assert without()._rewrite(read_ir(write_example(without.pattern, EXAMPLE, tmp_path)))[0] == 1
    path = write_example(lambda op, x, axis: op.Neg(op.Softmax(x, axis=axis)), {"x": (2, 3), "axis": 0}, tmp_path)
    assert without()._rewrite(read_ir(path))[0] == 0


def test_a_check_refuses_and_attributes_arrive(tmp_path: Path) -> None:
    rule = rewrite_pass("diagnose.b", last_axis, plain, check=is_last, example={"x": (2, 3), "axis": -1})
    assert rule.summary == "rewrites Identity(Softmax(x, axis=axis)) as Softmax(x, axis=axis)"
    assert rule()._rewrite(read_ir(write_example(rule.pattern, rule.example, tmp_path)))[0] == 1
    first = read_ir(write_example(rule.pattern, {"x": (2, 3), "axis": 0}, tmp_path))
    assert rule()._rewrite(first)[0] == 0


@pytest.mark.usefixtures("jobs_here")
def test_a_wrong_replacement_is_measured_by_the_gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @hookimpl
    def optim_fuse(target: Target) -> Any:
        return (RIGHT, WRONG)

    monkeypatch.setattr(plugin, "optim_fuse", optim_fuse, raising=False)
    monkeypatch.setattr(loaded_once, "_loaded", {})  # another test may have loaded the plugin without it
    with optim.lab(write_example(RIGHT.pattern, RIGHT.example, tmp_path)) as lab:
        assert lab.try_pass("diagnose.softsign").drift < 1e-5
        assert lab.try_pass("diagnose.wrong").drift > 0.01
