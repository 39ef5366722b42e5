"""``ort.fuse-convolution``: each rewrite fires, declines with a reason, and computes the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import NodeProto, TensorProto, helper
from ort_models import CPU, Array, apply, build, names_and_shapes, operators, random_weight, relative_l2

from optim import Model, PassResult
from optim.onnx import read_constant
from optim_plugins.ort.fuse.convolution.fuse_convolution import FuseConvolution
from optim_plugins.ort.fuse.convolution.steps_ahead import fold_steps_ahead
from optim_plugins.ort.graph.inferred_shapes import infer_shapes

EXACT = 2e-6
FEEDS = {"x": random_weight(2, 4, 8, 8)}
CHANNELS = (6, 1, 1)


def number(value: float) -> Array:
    return np.array(value, np.float32)


def net(folder: Path, *nodes: NodeProto, out: tuple[Any, ...] = ("n", 6, "h", "w"), **weights: Array) -> Model:
    """Nodes from x to y, with the weights of a Conv at hand: w [6, 4, 3, 3], v [6, 6, 1, 1]."""
    known = {"w": random_weight(6, 4, 3, 3), "v": random_weight(6, 6, 1, 1, seed=1), **weights}
    read = {name for node in nodes for name in node.input}
    kept = {name: array for name, array in known.items() if name in read}
    return build(folder, list(nodes), kept, {"x": ["n", 4, 8, 8]}, {"y": list(out)})


def node(operator: str, inputs: str, output: str, **attributes: Any) -> NodeProto:
    return helper.make_node(operator, inputs.split(), [output], name=f"node_{output}", **attributes)


def folded(folder: Path, model: Model) -> tuple[PassResult, float]:
    """What the pass made, its drift, with the interface held and a second time for nothing."""
    result = apply(FuseConvolution, model, folder)
    if result.changed:
        assert names_and_shapes(result.model) == names_and_shapes(model)
        assert not apply(FuseConvolution, result.model, folder).changed
    return result, relative_l2(model, result.model, FEEDS)


def hard_swish(source: str, output: str) -> list[NodeProto]:
    """As Paddle and old PyTorch write it."""
    return [
        node("Add", f"{source} three", f"{output}_moved"),
        node("Clip", f"{output}_moved zero six", f"{output}_clipped"),
        node("Mul", f"{source} {output}_clipped", f"{output}_product"),
        node("Div", f"{output}_product six", output),
    ]


NUMBERS = {"zero": number(0), "three": number(3), "six": number(6)}


@pytest.mark.parametrize("shape", [(), (1,), CHANNELS, (1, 6, 1, 1)])
def test_what_scales_and_shifts_a_convolution_goes_into_it(shape: tuple[int, ...], tmp_path: Path) -> None:
    nodes = [
        node("Conv", "x w", "c"),
        node("Mul", "f c", "m"),
        node("Add", "m s", "a"),
        node("Div", "a f", "d"),
        node("Sub", "s d", "y"),
    ]
    numbers = {"f": random_weight(*shape) + number(2), "s": random_weight(*shape, seed=3)}
    result, distance = folded(tmp_path, net(tmp_path, *nodes, **numbers))
    assert result.counts == {"scales and shifts folded": 4}
    assert operators(result.model) == ["Conv"]
    assert distance < EXACT


@pytest.mark.parametrize("groups", [1, 2])
def test_a_transposed_convolution_takes_a_normalization_in(groups: int, tmp_path: Path) -> None:
    columns = 6 // groups
    nodes = [node("ConvTranspose", "x w b", "c", group=groups), node("BatchNormalization", "c p q r s", "y")]
    numbers = {name: random_weight(6, seed=place) for place, name in enumerate("bpqr")}
    model = net(tmp_path, *nodes, w=random_weight(4, columns, 3, 3), s=np.abs(random_weight(6)) + number(1), **numbers)
    result, distance = folded(tmp_path, model)
    assert result.counts == {"scales and shifts folded": 1}
    assert operators(result.model) == ["ConvTranspose"]
    assert distance < EXACT


@pytest.mark.parametrize("groups", [1, 2])
def test_what_comes_before_convolutions_goes_into_all_of_them(groups: int, tmp_path: Path) -> None:
    weight = random_weight(6, 4 // groups, 3, 3)
    nodes = [
        node("Mul", "x f", "m"),
        node("Add", "m s", "a"),
        node("Conv", "a w", "left", group=groups),
        node("Conv", "a w2 b", "right"),
        node("Max", "left right", "y"),
    ]
    numbers = {"f": random_weight(4, 1, 1), "s": random_weight(4, 1, 1, seed=2), "b": random_weight(6, seed=4)}
    result, distance = folded(
        tmp_path, net(tmp_path, *nodes, w=weight, w2=random_weight(6, 4, 3, 3, seed=5), **numbers)
    )
    assert operators(result.model) == ["Conv", "Conv", "Max"]
    assert distance < EXACT


def test_where_one_convolution_would_overflow_none_takes_a_step_in(tmp_path: Path) -> None:
    nodes = [
        node("Mul", "x f", "m"),
        node("Conv", "m w", "left"),
        node("Conv", "m large", "far"),
        node("Min", "left far", "y"),
    ]
    weight = random_weight(6, 4, 3, 3)
    graph = net(tmp_path, *nodes, w=weight, large=np.full_like(weight, 1e25), f=number(1e20)).ir()
    infer_shapes(graph)
    assert fold_steps_ahead(graph) == 0
    for one, constant in zip(list(graph.graph)[1:3], (weight, np.full_like(weight, 1e25)), strict=True):
        np.testing.assert_array_equal(read_constant(one.inputs[1]), constant)


def test_the_half_of_a_gelu_stays_and_steps_behind_an_identity_go(tmp_path: Path) -> None:
    nodes = [
        node("Conv", "x w", "c"),
        node("Identity", "c", "i"),
        node("Mul", "i two", "s"),
        node("Div", "s root", "g1"),
        node("Erf", "g1", "g2"),
        node("Add", "g2 one", "g3"),
        node("Mul", "s g3", "g4"),
        node("Mul", "g4 half", "g"),
        node("Conv", "g v", "y"),
    ]
    numbers = {"two": number(2), "root": number(2**0.5), "one": number(1), "half": number(0.5)}
    result, distance = folded(tmp_path, net(tmp_path, *nodes, **numbers))
    assert operators(result.model) == ["Conv", "Div", "Erf", "Add", "Mul", "Mul", "Conv"]
    assert distance < EXACT


def test_branches_that_hand_on_what_lies_outside_them_do_so_still(tmp_path: Path) -> None:
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("t", "e")]
    branches = {
        "then_branch": helper.make_graph([node("Identity", "s", "t")], "then", [], outputs[:1]),
        "else_branch": helper.make_graph([node("Identity", "s", "e")], "else", [], outputs[1:]),
    }
    nodes = [node("Conv", "x w", "c"), node("Mul", "c two", "s"), helper.make_node("If", ["yes"], ["y"], **branches)]
    model = net(tmp_path, *nodes, two=number(2), yes=np.array(True))
    result, distance = folded(tmp_path, model)
    assert operators(result.model)[:2] == ["Conv", "If"]
    assert distance < EXACT


def test_a_convolution_that_pads_keeps_the_shift_and_takes_the_scale(tmp_path: Path) -> None:
    nodes = [node("Mul", "x f", "m"), node("Add", "m s", "a"), node("Conv", "a w", "y", pads=[1, 1, 1, 1])]
    result, distance = folded(tmp_path, net(tmp_path, *nodes, f=number(0.3), s=number(-2)))
    assert operators(result.model) == ["BatchNormalization", "Conv"]
    assert distance < EXACT


def test_hard_swish_becomes_what_the_runtime_recognizes(tmp_path: Path) -> None:
    nodes = [node("Conv", "x w", "c"), *hard_swish("c", "h"), node("Mul", "h k", "m"), node("Conv", "m v", "y")]
    result, distance = folded(tmp_path, net(tmp_path, *nodes, k=number(0.4), **NUMBERS))
    assert result.counts == {"hard sigmoids written": 1, "scales and shifts folded": 1}
    assert operators(result.model) == ["Conv", "HardSigmoid", "Mul", "Conv"]
    assert distance < EXACT


def test_a_hard_sigmoid_alone_is_one_operator(tmp_path: Path) -> None:
    nodes = [
        node("Conv", "x w", "c"),
        node("Mul", "c k", "m"),
        node("Add", "m three", "a"),
        node("Clip", "a zero six", "l"),
        node("Div", "l six", "y"),
    ]
    result, distance = folded(tmp_path, net(tmp_path, *nodes, k=number(1.2), **NUMBERS))
    assert operators(result.model) == ["Conv", "HardSigmoid"]
    assert distance < EXACT


@pytest.mark.parametrize(
    "nodes",
    [
        pytest.param([node("Conv", "x w", "c"), node("Mul", "c c", "y")], id="no constant"),
        pytest.param([node("Conv", "x w", "c"), node("Mul", "c row", "y")], id="a number for each column"),
        pytest.param([node("Conv", "x w", "c"), node("Add", "c six", "d"), node("Mul", "c d", "y")], id="read twice"),
        pytest.param(
            [node("Add", "x six", "a"), node("Conv", "a w", "y", pads=[1, 1, 1, 1])], id="padded, only shifted"
        ),
        pytest.param(
            [node("Add", "x six", "a"), node("Conv", "a w", "c"), node("Concat", "c c", "y", axis=2)], id="pads"
        ),
    ],
)
def test_it_declines_with_the_reason(nodes: list[NodeProto], tmp_path: Path) -> None:
    model = net(tmp_path, *nodes, six=number(6), row=random_weight(6))
    result, _ = folded(tmp_path, model)
    if nodes[-1].op_type == "Concat":  # the control: without padding the shift goes in
        assert operators(result.model) == ["Conv", "Concat"]
        return
    assert not result.changed
    assert "it could take in" in result.notes[0]


@pytest.mark.parametrize(
    ("low", "high", "divisor"), [(0, 6, 5), (-1, 6, 6), (0, np.inf, 6)], ids=["not to 1", "not from 0", "no bound"]
)
def test_other_clips_stay(low: float, high: float, divisor: float, tmp_path: Path) -> None:
    nodes = [node("Conv", "x w", "c"), *hard_swish("c", "y")]
    numbers = {"zero": number(low), "three": number(3), "six": number(high), "five": number(divisor)}
    nodes[-1].input[1] = "five"
    result, _ = folded(tmp_path, net(tmp_path, *nodes, **numbers))
    assert "HardSigmoid" not in operators(result.model)


def test_a_step_that_makes_a_tensor_larger_stays(tmp_path: Path) -> None:
    nodes = [node("Conv", "x one", "c"), node("Mul", "c s", "m"), node("Conv", "m v", "y")]
    result, _ = folded(tmp_path, net(tmp_path, *nodes, one=random_weight(1, 4, 3, 3), s=random_weight(*CHANNELS)))
    assert not result.changed


def test_only_what_the_runtime_does_not_fold_itself_is_worth_trying(tmp_path: Path) -> None:
    normalization = [node("Conv", "x w", "c"), node("BatchNormalization", "c p p p s", "y")]
    numbers = {"p": random_weight(6), "s": np.ones(6, np.float32)}
    model = net(tmp_path, *normalization, **numbers)
    answer = FuseConvolution().worth_trying(model, CPU, "latency")
    assert not answer
    assert "when it opens the model" in answer.reason
    assert folded(tmp_path, model)[0].counts == {"normalizations folded": 1}
    scaled = net(tmp_path, node("Conv", "x w", "c"), node("Mul", "c k", "y"), k=number(2))
    assert FuseConvolution().worth_trying(scaled, CPU, "latency")


def test_a_graph_without_convolution_is_none_of_its_business(tmp_path: Path) -> None:
    answer = FuseConvolution().applicable(net(tmp_path, node("Relu", "x", "y"), out=("n", 4, 8, 8)), CPU)
    assert not answer
    assert answer.reason == "the graph has no Conv"
