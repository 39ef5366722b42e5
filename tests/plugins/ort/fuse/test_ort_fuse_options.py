"""Options of ``ort.fuse-transformer`` for engine ``onnxruntime``: each changes what its optimizer makes of a graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from ort_models import CPU, apply, export, operators, random_weight, relative_l2, stored

from optim import Model, OptimError
from optim.options import parse_options
from optim_plugins.ort.fuse.fuse_transformer import FuseTransformer

_FEEDS = {"x": random_weight(2, 5, 32), "mask": np.array([[1, 1, 1, 0, 0], [1] * 5])}
_LOSSLESS = 1e-5
_SIZES = {"num_heads": 4, "hidden_size": 32}


def _attention(folder: Path, *, heads: str = "split") -> Model:
    """An attention of four heads as BERT has it; with ``heads="computed"`` no constant tells how many there are."""
    make = helper.make_node
    numbers: dict[str, Any] = {"split": [0, 0, 4, 8], "join": [0, 0, 32], "axis1": [1], "axis2": [2], "sizes": [0, 0]}
    nodes = [make("LayerNormalization", ["x", "g", "b"], ["ln"], axis=-1)]
    if heads == "computed":
        nodes += [make("Shape", ["table"], ["four"]), make("Concat", ["sizes", "four", "eight"], ["computed"], axis=0)]
        numbers["eight"] = [8]
    for part, permutation in {"q": [0, 2, 1, 3], "k": [0, 2, 3, 1], "v": [0, 2, 1, 3]}.items():
        nodes += [
            make("MatMul", ["ln", f"w{part}"], [f"{part}m"]),
            make("Add", [f"{part}m", f"c{part}"], [f"{part}a"]),
            make("Reshape", [f"{part}a", heads], [f"{part}r"]),
            make("Transpose", [f"{part}r"], [f"{part}t"], perm=permutation),
        ]
    nodes += [
        make("MatMul", ["qt", "kt"], ["qk"]),
        make("Div", ["qk", "root"], ["scaled"]),
        make("Unsqueeze", ["mask", "axis1"], ["mask1"]),
        make("Unsqueeze", ["mask1", "axis2"], ["mask2"]),
        make("Cast", ["mask2"], ["floats"], to=TensorProto.FLOAT),
        make("Sub", ["whole", "floats"], ["left"]),
        make("Mul", ["left", "minus"], ["masked"]),
        make("Add", ["scaled", "masked"], ["scores"]),
        make("Softmax", ["scores"], ["shares"], axis=-1),
        make("MatMul", ["shares", "vt"], ["o"]),
        make("Transpose", ["o"], ["ot"], perm=[0, 2, 1, 3]),
        make("Reshape", ["ot", "join"], ["joined"]),
        make("MatMul", ["joined", "wo"], ["om"]),
        make("Add", ["om", "co"], ["oa"]),
        make("Add", ["oa", "ln"], ["sum"]),
        make("LayerNormalization", ["sum", "g", "b"], ["y"], axis=-1),
    ]
    weights: dict[str, Any] = {name: np.array(value, np.int64) for name, value in numbers.items()}
    weights |= {
        name: np.array(value, np.float32) for name, value in {"root": 8**0.5, "whole": 1, "minus": -1e4}.items()
    }
    weights |= {"g": np.ones(32, np.float32), "b": np.zeros(32, np.float32), "table": np.zeros(4, np.float32)}
    for part in "qkvo":
        weights |= {
            f"w{part}": random_weight(32, 32, seed=ord(part)) / 6,
            f"c{part}": random_weight(32, seed=ord(part)),
        }
    read = {name for node in nodes for name in node.input}
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "attention",
        [info("x", TensorProto.FLOAT, ["n", "s", 32]), info("mask", TensorProto.INT64, ["n", "s"])],
        [info("y", TensorProto.FLOAT, ["n", "s", 32])],
        [numpy_helper.from_array(array, name) for name, array in weights.items() if name in read],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "a.onnx")
    return stored(folder / "a.onnx", folder)


def _fused(model: Model, folder: Path, **options: Any) -> tuple[set[str], float]:
    result = apply(FuseTransformer, model, folder, engine="onnxruntime", **options)
    return set(operators(result.model)), relative_l2(model, result.model, _FEEDS)


@pytest.mark.parametrize(
    ("options", "made", "not_made"),
    [
        ({}, "Attention", "MultiHeadAttention"),
        ({"model_type": "bert_tf"}, "SkipLayerNormalization", "MultiHeadAttention"),
        ({"flags": {"multi_head_attention": True}}, "MultiHeadAttention", "Attention"),
        ({"flags": {"attention": False}}, "SkipLayerNormalization", "Attention"),
        ({"flags": {"skip_layer_norm": False}}, "Attention", "SkipLayerNormalization"),
        ({"mask": "raw"}, "Attention", "ReduceSum"),
        ({"mask": "index"}, "ReduceSum", "MultiHeadAttention"),
    ],
)
def test_a_switch_of_onnxruntimes_optimizer_does_what_its_name_says(
    options: Any, made: str, not_made: str, tmp_path: Path
) -> None:
    found, off = _fused(_attention(tmp_path), tmp_path, **options)
    assert made in found
    assert not_made not in found
    assert off <= _LOSSLESS


def test_a_graph_that_does_not_tell_its_heads_is_fused_with_the_number_that_is_given(tmp_path: Path) -> None:
    model = _attention(tmp_path, heads="computed")
    assert "Attention" not in _fused(model, tmp_path)[0]
    found, off = _fused(model, tmp_path, **_SIZES)
    assert "Attention" in found
    assert off <= _LOSSLESS


def test_without_a_mask_what_is_padded_counts(tmp_path: Path) -> None:
    found, off = _fused(_attention(tmp_path), tmp_path, mask="none")
    assert "Attention" in found
    assert off > 1e-2


def test_gelu_is_approximated_if_asked_for(tmp_path: Path) -> None:
    options = {"engine": "onnxruntime", "flags": {"gelu_approximation": True}}
    result = apply(FuseTransformer, export("bert.ts", tmp_path), tmp_path, **options)
    assert result.counts["FastGelu"] == 2


def test_padding_is_removed_before_attention_for_cuda_alone(tmp_path: Path) -> None:
    options = {"engine": "onnxruntime", "mask": "index", "packing": True}
    found = apply(FuseTransformer, _attention(tmp_path), tmp_path, **options)
    assert {"RemovePadding", "PackedAttention", "RestorePadding"} <= set(operators(found.model))
    with pytest.raises(OptimError, match="cannot pack attention for target cpu"):
        FuseTransformer().refuse(parse_options(FuseTransformer, options), CPU)


def test_a_graph_without_attention_says_that_nothing_is_packed(tmp_path: Path, capfd: pytest.CaptureFixture) -> None:
    model = export("bert.ts", tmp_path)
    result = apply(FuseTransformer, model, tmp_path, engine="onnxruntime", mask="index", packing=True)
    assert "nothing is packed: the optimizer fused no attention" in result.notes
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"num_heads": 4, "hidden_size": 32}, "num_heads is for engine onnxruntime"),
        ({"engine": "onnxruntime", "num_heads": 4}, "belong together"),
        ({"engine": "onnxruntime", "num_heads": 5, "hidden_size": 32}, "no multiple of num_heads"),
        ({"engine": "onnxruntime", "leave_out": ["gelu"]}, "leave_out is for engine optim"),
        ({"engine": "onnxruntime", "flags": {"nhwc_conv": True}}, "is for model_type unet, vae or clip"),
        ({"engine": "onnxruntime", "flags": {"nothing": True}}, "flags"),
        ({"engine": "onnxruntime", "packing": True}, "packing needs mask index"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: Any, said: str) -> None:
    with pytest.raises(OptimError) as refused:
        parse_options(FuseTransformer, options)
    assert said in refused.value.cause


def test_every_flag_is_one_that_onnxruntime_has() -> None:
    from typing import get_args

    from onnxruntime.transformers.fusion_options import FusionOptions
    from onnxruntime.transformers.optimizer import MODEL_TYPES

    from optim_plugins.ort.fuse.fuse_transformer_options import Flag, ModelType
    from optim_plugins.ort.fuse.fusions_onnxruntime import _ATTRIBUTES

    known = vars(FusionOptions("unet"))
    assert {_ATTRIBUTES.get(flag, f"enable_{flag}") for flag in get_args(Flag)} <= known.keys()
    assert set(get_args(ModelType)) == set(MODEL_TYPES)


def test_sizes_and_masks_of_an_attention_that_is_not_fused_are_said_to_change_nothing(tmp_path: Path) -> None:
    asked = {"model_type": "bert", "num_heads": 2, "hidden_size": 32, "mask": "index"}
    result = apply(FuseTransformer, export("bert.dynamo", tmp_path), tmp_path, engine="onnxruntime", **asked)
    assert "num_heads, hidden_size, mask changed nothing: the optimizer fused no attention" in result.notes
