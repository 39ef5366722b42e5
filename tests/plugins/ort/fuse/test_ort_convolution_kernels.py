"""``ort.fuse-convolution``: neighbours as channels, a Softmax brought forward, constants in full."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from onnx import NodeProto, helper
from ort_models import CPU, Array, apply, build, context, names_and_shapes, operators, proto, random_weight, relative_l2

from optim import Model, Target
from optim_plugins.ort.fuse.convolution.fuse_convolution import FuseConvolution
from optim_plugins.ort.fuse.convolution.neighbours_as_channels import take_neighbours

EXACT = 2e-6
SIZES = {"x": ["n", 4, 6, 48]}
FEEDS = {"x": random_weight(2, 4, 6, 48)}


def node(operator: str, inputs: str, output: str, **attributes: Any) -> NodeProto:
    return helper.make_node(operator, inputs.split(), [output], name=f"node_{output}", **attributes)


def net(folder: Path, *nodes: NodeProto, opset: int = 17, inputs: Any = None, **weights: Array) -> Model:
    """From x [n, 4, 6, 48] to y, whose shape is not told."""
    return build(folder, list(nodes), weights, inputs or SIZES, {"y": [None] * 4}, opset=opset)


def images(folder: Path, *behind: NodeProto, rows: int | str = 6, kernel: int = 9, **attributes: Any) -> Model:
    """A convolution of few channels with a wide kernel, and what comes behind it."""
    conv = node("Conv", "x w b", "c" if behind else "y", **attributes)
    weights = {"w": random_weight(4, 4, 3, kernel), "b": random_weight(4, seed=1), "half": np.array(0.5, np.float32)}
    read = {name for one in (conv, *behind) for name in one.input}
    kept = {name: array for name, array in weights.items() if name in read}
    return net(folder, conv, *behind, inputs={"x": ["n", 4, rows, 48]}, **kept)


@pytest.fixture(autouse=True)
def of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small nets stand for large ones."""
    monkeypatch.setattr("optim_plugins.ort.fuse.convolution.neighbours_as_channels._LEAST_SAVED", 0)


def changed(folder: Path, model: Model) -> Model:
    """What the pass makes, the same within rounding, the interface held, and a second time for nothing."""
    result = apply(FuseConvolution, model, folder, neighbours=True)
    assert result.changed
    assert names_and_shapes(result.model) == names_and_shapes(model)
    assert not apply(FuseConvolution, result.model, folder, neighbours=True).changed
    assert relative_l2(model, result.model, FEEDS) < EXACT
    return result.model


@pytest.mark.parametrize(
    ("attributes", "rows"),
    [
        pytest.param({"pads": [1, 4, 1, 4]}, 6, id="padded"),
        pytest.param({"pads": [0, 7, 2, 1]}, 6, id="padded on one side"),
        pytest.param({"pads": [1, 4, 1, 4], "strides": [2, 1]}, 6, id="strides of rows"),
        pytest.param({"pads": [1, 4, 1, 4], "strides": [1, 2]}, 6, id="strides"),
        pytest.param({"pads": [2, 4, 2, 4], "dilations": [2, 1]}, 6, id="rows apart"),
        pytest.param({"auto_pad": "VALID"}, 6, id="valid"),
        pytest.param({"pads": [1, 4, 1, 4]}, "rows", id="any number of rows"),
    ],
)
def test_few_channels_compute_neighbours_at_once(attributes: dict[str, Any], rows: int | str, tmp_path: Path) -> None:
    made = changed(tmp_path, images(tmp_path, rows=rows, **attributes))
    assert operators(made) == ["Conv", "Reshape", "Transpose", "Reshape"]
    weight = next(one for one in proto(made).graph.initializer if "weight" in one.name)
    assert weight.dims[0] > 4


def test_what_the_runtime_takes_into_the_convolution_stays_behind_it(tmp_path: Path) -> None:
    nodes = [node("Clip", "c half", "d"), node("Sigmoid", "d", "e"), node("Neg", "e", "y")]
    made = changed(tmp_path, images(tmp_path, *nodes, pads=[1, 4, 1, 4]))
    assert operators(made) == ["Conv", "Clip", "Sigmoid", "Reshape", "Transpose", "Reshape", "Neg"]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"group": 4}, id="grouped"),
        pytest.param({"dilations": [1, 2]}, id="columns apart"),
        pytest.param({"auto_pad": "SAME_UPPER"}, id="pads by size"),
        pytest.param({"kernel": 1}, id="a narrow kernel"),
        pytest.param({"pads": [0, 4, 0, 5]}, id="a length that nothing divides"),
    ],
)
def test_other_convolutions_stay(change: dict[str, Any], tmp_path: Path) -> None:
    kernel = change.pop("kernel", 9)
    weights = {"w": random_weight(4, 4 // change.get("group", 1), 3, kernel)}
    inputs = {"x": ["n", 4, 6, 46 if "pads" in change else 48]}
    model = net(tmp_path, node("Conv", "x w", "y", **change), inputs=inputs, **weights)
    result = apply(FuseConvolution, model, tmp_path, neighbours=True)
    assert not result.changed
    assert "few channels and a wide kernel" in result.notes[0]


def test_kernels_without_lanes_are_left_alone(tmp_path: Path) -> None:
    model = net(tmp_path, node("Conv", "x w", "y"), inputs={"x": ["n", 33, 6, 48]}, w=random_weight(1, 33, 3, 9))
    assert take_neighbours(ir.load(model.path), 16) == 0


def test_it_is_offered_on_cpus_where_it_changes_something(tmp_path: Path) -> None:
    wide, narrow = images(tmp_path, pads=[1, 4, 1, 4]), images(tmp_path, kernel=1)
    accelerator = Target("gpu", "ort", "CUDAExecutionProvider")

    def offered(model: Model, target: Target) -> list[bool]:
        return [one.neighbours for one in FuseConvolution().candidates(model, target, context(tmp_path))]

    assert offered(wide, CPU) == [True, False]
    assert offered(narrow, CPU) == offered(wide, accelerator) == [False]
    assert FuseConvolution().worth_trying(wide, CPU, "latency")
    assert not FuseConvolution().worth_trying(wide, accelerator, "latency")


@pytest.mark.parametrize("operator", ["Softmax", "LogSoftmax"])
def test_a_softmax_comes_before_the_transpose_that_brings_its_axis_forward(operator: str, tmp_path: Path) -> None:
    nodes = [node("Transpose", "x", "t", perm=[0, 2, 1, 3]), node(operator, "t", "s", axis=1), node("Conv", "s w", "y")]
    made = changed(tmp_path, net(tmp_path, *nodes, w=random_weight(20, 6, 1, 1)))
    assert operators(made) == [operator, "Transpose", "Conv"]


@pytest.mark.parametrize(
    ("axis", "opset", "reader"),
    [
        pytest.param(3, 17, "Neg", id="an axis that is not brought forward"),
        pytest.param(1, 11, "Neg", id="over all axes behind it"),
        pytest.param(1, 17, "Add", id="transposed for others too"),
    ],
)
def test_other_softmaxes_stay(axis: int, opset: int, reader: str, tmp_path: Path) -> None:
    last = node(reader, "t s" if reader == "Add" else "s", "r")
    nodes = [node("Transpose", "x", "t", perm=[0, 2, 1, 3]), node("Softmax", "t", "s", axis=axis), last]
    model = net(tmp_path, *nodes, node("Conv", "r w", "y"), w=random_weight(20, 6, 1, 1), opset=opset)
    assert not apply(FuseConvolution, model, tmp_path).changed


@pytest.mark.parametrize(
    ("shape", "width", "becomes"), [((1,), 1, (1, 1, 1, 1)), ((), 1, (1, 1, 1, 1)), ((6, 1), 2, (1, 1, 6, 2))]
)
@pytest.mark.parametrize("operator", ["Div", "Sub"])
def test_constants_are_written_in_full_where_short_axes_would_repeat_them(
    operator: str, shape: tuple[int, ...], width: int, becomes: tuple[int, ...], tmp_path: Path
) -> None:
    nodes = [node("Relu", "x", "r"), node(operator, "r k", "m"), node("Transpose", "m", "t", perm=[0, 3, 1, 2])]
    weights = {"k": random_weight(*shape) + np.float32(2), "w": random_weight(2, width, 1, 1)}
    inputs = {"x": ["n", 4, 6, width]}
    model = net(tmp_path, *nodes, node("Conv", "t w", "y"), inputs=inputs, **weights)
    result = apply(FuseConvolution, model, tmp_path)
    assert result.counts == {"constants in full": 1}
    assert becomes in [tuple(one.dims) for one in proto(result.model).graph.initializer]
    assert relative_l2(model, result.model, {"x": random_weight(2, 4, 6, width)}) == 0
    assert not apply(FuseConvolution, result.model, tmp_path).changed


def test_the_epsilon_of_a_normalization_and_what_is_repeated_along_rows_stay(tmp_path: Path) -> None:
    nodes = [
        node("ReduceMean", "x", "m", axes=[3]),
        node("Add", "m k", "a"),
        node("Sqrt", "a", "s"),
        node("Mul", "x rows", "p"),
        node("Add", "p s", "q"),
        node("Conv", "q w", "y"),
    ]
    weights = {"k": random_weight(), "rows": random_weight(6, 1), "w": random_weight(20, 4, 1, 1)}
    assert not apply(FuseConvolution, net(tmp_path, *nodes, **weights), tmp_path).changed
