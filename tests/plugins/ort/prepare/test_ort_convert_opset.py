"""``ort.convert-opset``."""

from __future__ import annotations

from pathlib import Path

import pytest
from onnx import helper
from ort_models import (
    CPU,
    apply,
    build,
    context,
    export,
    feeds_for,
    operators,
    parsed,
    proto,
    random_weight,
    relative_l2,
)

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
    assert relative_l2(model, result.model, _FEEDS) < 1e-6


def test_weights_are_not_written_again(tmp_path: Path) -> None:
    model = _old(tmp_path)
    before = set((tmp_path / "store").glob("*.data"))
    apply(ConvertOpset, model, tmp_path, to=17)
    assert set((tmp_path / "store").glob("*.data")) == before


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bert.ts", "gpt2.dynamo", "llama.ts", "convnet.dynamo"])
def test_exports_and_their_fused_selves_are_converted(name: str, tmp_path: Path) -> None:
    model = export(name, tmp_path)
    fused = apply(FuseTransformer, model, tmp_path)
    for one in (model, fused.model):
        result = apply(ConvertOpset, one, tmp_path, to=21)
        assert result.model.opset[""] == 21
        assert result.model.opset.get("com.microsoft") == one.opset.get("com.microsoft")
        assert relative_l2(one, result.model, feeds_for(name)) < 1e-5


def test_auto_leaves_models_alone_that_are_new_enough(tmp_path: Path) -> None:
    recent = ConvertOpset().worth_trying(export("bert.ts", tmp_path), CPU, "latency")
    assert recent.reason == "the model has opset 17; no pass needs more than 13"
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


@pytest.mark.parametrize(
    ("node", "before", "to", "reason"),
    [
        ("y = Softmax <axis = 1> (x)", 13, 9, "Softmax over axis 1 takes all axes behind it, too, before opset 13"),
        (
            "y = AveragePool <kernel_shape = [2], dilations = [2]> (x)",
            19,
            17,
            "AveragePool has no attribute 'dilations' in opset 17",
        ),
        ("y = Swish (x)", 24, 26, "Could not find an implementation for Swish(24)"),
    ],
)
def test_what_another_version_cannot_say_is_declined_with_the_reason(
    node: str, before: int, to: int, reason: str, tmp_path: Path
) -> None:
    model = parsed(
        tmp_path, f"""<opset_import: ["": {before}]> g (float[1, 3, 8] x) => (float[a, b, c] y) {{ {node} }}"""
    )
    result = apply(ConvertOpset, model, tmp_path, to=to)
    assert not result.changed
    assert reason in result.notes[0]


@pytest.mark.parametrize(
    ("node", "before", "to"),
    [
        ("y = Softmax (x)", 13, 9),
        ("y = LogSoftmax <axis = 2> (x)", 17, 11),
        ("y = AveragePool <kernel_shape = [2], dilations = [1]> (x)", 19, 17),
        ("y = Cast <to = 1, saturate = 1> (x)", 19, 13),
    ],
)
def test_an_attribute_that_goes_without_saying_is_taken_out(node: str, before: int, to: int, tmp_path: Path) -> None:
    model = parsed(
        tmp_path, f"""<opset_import: ["": {before}]> g (float[1, 3, 8] x) => (float[a, b, c] y) {{ {node} }}"""
    )
    result = apply(ConvertOpset, model, tmp_path, to=to)
    assert result.model.opset[""] == to
    assert relative_l2(model, result.model, {"x": random_weight(1, 3, 8)}) < 1e-6


def test_a_scan_over_batches_is_declined(tmp_path: Path) -> None:
    model = parsed(
        tmp_path,
        """<opset_import: ["": 8]> g (float[1, 1] first, float[1, 3, 1] x) => (float[1, 1] last, float[1, 3, 1] all) {
            last, all = Scan <num_scan_inputs = 1,
                body = b (float[1] sum, float[1] next) => (float[1] s, float[1] out) {
                    s = Add (sum, next)
                    out = Identity (s)
                }> (, first, x)
        }""",
    )
    result = apply(ConvertOpset, model, tmp_path, to=17)
    assert result.notes == (
        "opset 8 cannot be converted to 17: a Scan of opset 8 takes batches, one of opset 9 does not",
    )


def test_a_file_of_ir_3_gets_the_constants_that_converters_write(tmp_path: Path) -> None:
    node = helper.make_node("Pad", ["x"], ["y"], pads=[0, 1, 0, 1])
    model = build(tmp_path, [node], {}, {"x": [2, 3]}, {"y": [2, 5]}, opset=9, ir_version=3)
    result = apply(ConvertOpset, model, tmp_path, to=13)
    assert relative_l2(model, result.model, {"x": random_weight(2, 3)}) == 0


def test_weights_of_branches_are_found_in_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    weight = helper.make_tensor("w", 1, [20, 20], random_weight(20, 20).tobytes(), raw=True)
    shape = [helper.make_tensor_value_info(name, 1, [20, 20]) for name in ("t", "e")]
    yes = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["t"])], "yes", [], shape[:1], [weight])
    no = helper.make_graph([helper.make_node("Neg", ["x"], ["e"])], "no", [], shape[1:])
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["m"], keepdims=0),
        helper.make_node("Cast", ["m"], ["c"], to=9),
        helper.make_node("If", ["c"], ["y"], then_branch=yes, else_branch=no),
    ]
    model = build(tmp_path, nodes, {}, {"x": [20, 20]}, {"y": [20, 20]}, opset=11)
    result = apply(ConvertOpset, model, tmp_path, to=17)
    assert result.model.opset[""] == 17
    assert relative_l2(model, result.model, {"x": random_weight(20, 20)}) < 1e-6


def test_a_model_without_standard_operators_is_declined(tmp_path: Path) -> None:
    text = """<opset_import: ["com.microsoft": 1]> g (float[2] x) => (float[2] y) { y = com.microsoft.Gelu (x) }"""
    model = parsed(tmp_path, text)
    assert ConvertOpset().applicable(model, CPU).reason == "the model has no standard operators"
