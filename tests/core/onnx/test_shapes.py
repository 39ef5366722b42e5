"""Core's own function that makes dynamic dimensions fixed."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from optim.errors import OptimError
from optim.model import TensorInfo
from optim.onnx.shapes import fix_shapes, require_shapes_of, shapes_of_feeds

_INPUTS = (TensorInfo("ids", "int64", ("batch", "seq")), TensorInfo("mask", "float32", ("batch", None)))


def _graph(mask: tuple[str | None, ...] = ("batch", "seq")) -> ir.Model:
    """Embeddings times a mask, flattened by a shape that is computed at run time."""
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["embedded"]),
        helper.make_node("Unsqueeze", ["mask", "last"], ["column"]),
        helper.make_node("Mul", ["embedded", "column"], ["masked"]),
        helper.make_node("Shape", ["ids"], ["shape"]),
        helper.make_node("Concat", ["shape", "width"], ["wanted"], axis=0),
        helper.make_node("Reshape", ["masked", "wanted"], ["out"]),
    ]
    weights = {
        "table": np.zeros((50, 4), np.float32),
        "last": np.array([-1], np.int64),
        "width": np.array([4], np.int64),
    }
    graph = helper.make_graph(
        nodes,
        "g",
        [
            helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", "seq"]),
            helper.make_tensor_value_info("mask", TensorProto.FLOAT, mask),
        ],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, ["batch", "seq", 4])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    return ir.from_proto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))


def _shapes(graph: ir.Model) -> dict[str, tuple[int | str | None, ...] | None]:
    proto = ir.to_proto(graph)
    values = [*proto.graph.input, *proto.graph.value_info, *proto.graph.output]
    return {value.name: TensorInfo.of(value).shape for value in values}


def test_a_shape_fixes_whatever_shares_its_dimensions_and_all_that_follows() -> None:
    graph = _graph()
    assert fix_shapes(graph, {}, {"ids": (2, 7)}) == {"batch": 2, "seq": 7}
    shapes = _shapes(graph)
    assert shapes["mask"] == (2, 7)
    assert shapes["embedded"] == shapes["out"] == (2, 7, 4)
    onnx.checker.check_model(ir.to_proto(graph), full_check=True)


def test_one_named_dimension_leaves_the_other_dynamic() -> None:
    graph = _graph()
    fix_shapes(graph, {"batch": 3})
    assert _shapes(graph)["ids"] == (3, "seq")
    assert _shapes(graph)["out"] == (3, "seq", 4)


def test_dimensions_without_a_name_are_fixed_by_the_inputs_shape() -> None:
    graph = _graph((None, None))
    fix_shapes(graph, {}, {"ids": (1, 5), "mask": (1, 5)})
    assert _shapes(graph)["mask"] == (1, 5)


@pytest.mark.parametrize(
    ("shapes", "reference", "words"),
    [
        ({"idz": (1, 5)}, "unknown-input", "did you mean ids"),
        ({"ids": (1, 5, 2)}, "bad-shape", "has 2 dimensions, not 3"),
        ({"ids": (1, 0)}, "bad-shape", "cannot have the size 0"),
        ({"ids": (1, -5)}, "bad-shape", "cannot have the size -5"),
        ({"ids": (1, 5), "mask": (2, 5)}, "conflicting-shapes", "dimension 'batch' would have two sizes"),
    ],
)
def test_shapes_that_cannot_be_are_refused(shapes: dict[str, tuple[int, ...]], reference: str, words: str) -> None:
    with pytest.raises(OptimError) as raised:
        fix_shapes(_graph(), {}, shapes)
    assert raised.value.reference == reference
    assert words in str(raised.value)


def test_a_size_that_is_fixed_already_is_not_changed() -> None:
    graph = _graph()
    fix_shapes(graph, {"batch": 3})
    with pytest.raises(OptimError, match="has a fixed size 3, not 1"):
        fix_shapes(graph, {}, {"ids": (1, 5)})


def test_unknown_dimensions_list_those_that_exist() -> None:
    with pytest.raises(OptimError, match="known: batch, seq"):
        fix_shapes(_graph(), {"width": 3})


def test_samples_of_one_shape_say_the_shape() -> None:
    samples = [{"ids": np.zeros((1, 5), np.int64), "mask": np.zeros((1, 5), np.float32)}] * 2
    assert shapes_of_feeds(_INPUTS, samples) == {"ids": (1, 5), "mask": (1, 5)}


def test_samples_of_two_shapes_conflict() -> None:
    samples = [{"ids": np.zeros((1, n), np.int64), "mask": np.zeros((1, n), np.float32)} for n in (5, 6)]
    with pytest.raises(OptimError, match="1x5 in the first, 1x6 in sample 2"):
        shapes_of_feeds(_INPUTS, samples)
    with pytest.raises(OptimError, match="no samples"):
        shapes_of_feeds(_INPUTS, [])


def test_samples_that_the_fixed_model_would_not_take_are_refused() -> None:
    graph = _graph()
    fix_shapes(graph, {}, {"ids": (1, 5)})
    with pytest.raises(OptimError, match="input 'ids' would not take"):
        require_shapes_of(graph, [{"ids": np.zeros((1, 5), np.int64)}, {"ids": np.zeros((1, 6), np.int64)}])
