"""``ort.convert-opset``."""

from __future__ import annotations

from pathlib import Path

import pytest
from onnx import helper
from ort_models import CPU, apply, build, context, drift, export, feeds_for, operators, proto, random_weight

from optim import Model
from optim_plugins.ort.fuse.fuse_transformer import FuseTransformer
from optim_plugins.ort.prepare.convert_opset import ConvertOpset

_FEEDS = {"x": random_weight(7, 64, seed=9)}


def _old(folder: Path, opset: int = 11) -> Model:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"], name="dense"),
        helper.make_node("ReduceSum", ["p"], ["s"], axes=[1], keepdims=1, name="sum"),
        helper.make_node("Squeeze", ["s"], ["q"], axes=[1]),
        helper.make_node("Unsqueeze", ["q"], ["u"], axes=[1]),
        helper.make_node("Mul", ["p", "u"], ["y"]),
    ]
    return build(folder, nodes, {"w": random_weight(64, 96)}, {"x": ["n", 64]}, {"y": ["n", 96]}, opset=opset)


@pytest.mark.parametrize("to", [13, 17, 18, 21])
def test_an_old_model_computes_the_same_in_a_newer_version(to: int, tmp_path: Path) -> None:
    model = _old(tmp_path)
    result = apply(ConvertOpset, model, tmp_path, to=to)
    assert result.model.opset[""] == to
    assert result.counts == {"opset before": 11, "opset after": to}
    assert [name for name in operators(result.model) if name != "Constant"] == operators(model)
    assert {"dense", "sum"} <= {node.name for node in proto(result.model).graph.node}
    assert (result.model.inputs, result.model.outputs) == (model.inputs, model.outputs)
    assert drift(model, result.model, _FEEDS) < 1e-6


def test_weights_are_not_written_again(tmp_path: Path) -> None:
    model = _old(tmp_path)
    before = set((tmp_path / "store").glob("*.data"))
    apply(ConvertOpset, model, tmp_path, to=17)
    assert set((tmp_path / "store").glob("*.data")) == before


@pytest.mark.parametrize("name", ["bert.ts", "gpt2.dynamo", "llama.ts", "convnet.dynamo"])
def test_exports_and_their_fused_selves_are_converted(name: str, tmp_path: Path) -> None:
    model = export(name, tmp_path)
    fused = apply(FuseTransformer, model, tmp_path)
    for one in (model, fused.model):
        result = apply(ConvertOpset, one, tmp_path, to=21)
        assert result.model.opset[""] == 21
        assert result.model.opset.get("com.microsoft") == one.opset.get("com.microsoft")
        assert drift(one, result.model, feeds_for(name)) < 1e-5


def test_auto_leaves_models_alone_that_are_new_enough(tmp_path: Path) -> None:
    recent = ConvertOpset().worth_trying(export("bert.ts", tmp_path), CPU, "latency")
    assert recent.reason == "the model has opset 17; passes need 13 at most"
    old = _old(tmp_path)
    assert ConvertOpset().worth_trying(old, CPU, "latency")
    assert [one.to for one in ConvertOpset().candidates(old, CPU, context(tmp_path))] == [17]


def test_what_does_not_go_is_said_and_changes_nothing(tmp_path: Path) -> None:
    model = _old(tmp_path)
    same = apply(ConvertOpset, model, tmp_path, to=11)
    assert same.notes == ("the model has opset 11 already",)
    assert same.model is model
    too_new = apply(ConvertOpset, model, tmp_path, to=900)
    assert too_new.notes[0].startswith("this onnxruntime accepts opset ")
    gelu = build(tmp_path, [helper.make_node("Gelu", ["x"], ["y"])], {}, {"x": ["n", 4]}, {"y": ["n", 4]}, opset=20)
    back = apply(ConvertOpset, gelu, tmp_path, to=17)
    assert back.notes == ("opset 20 cannot be converted to 17: No Previous Version of Gelu exists",)
    assert not back.changed


def test_a_second_time_there_is_nothing_left(tmp_path: Path) -> None:
    once = apply(ConvertOpset, _old(tmp_path), tmp_path, to=17)
    assert not apply(ConvertOpset, once.model, tmp_path, to=17).changed
