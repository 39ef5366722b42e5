"""``optim blame`` on pairs that differ in how they were made: opset, integer operators, weights in blocks."""

from __future__ import annotations

import warnings

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, version_converter
from test_blame import SHAPE, WIDTH, add_behind, find, first, found, network, noisy  # noqa: F401 - a fixture among them

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("jobs_here")]


def centred(opset: int) -> onnx.ModelProto:
    """The network with the mean taken off in place of a normalization: what every opset has, in its own form."""
    model = network()
    model.opset_import[0].version = opset
    for layer in range(3):
        node = find(model, f"normal{layer}")
        place = list(model.graph.node).index(node)
        mean = onnx.helper.make_node("ReduceMean", [node.input[0]], [f"mean{layer}"], f"mean{layer}_node", axes=[-1])
        node.op_type = "Sub"
        del node.attribute[:]
        node.input[:] = [node.input[0], f"mean{layer}"]
        model.graph.node.insert(place, mean)
    return model


@pytest.mark.parametrize("opset", [11, 17])
def test_a_model_in_another_opset_blames_nothing_and_a_fault_in_it_is_named(found, opset):  # noqa: F811
    """From 11 on Softmax means something else, from 17 on ReduceMean takes its axes as an input."""
    source = centred(opset)
    newer = version_converter.convert_version(source, 21)
    assert "axes" not in str(find(newer, "mean1").attribute)
    assert found(source, newer).blamed == ()
    wrong = noisy(newer)
    assert first(found(source, newer)) == (wrong,)


def reader_of(samples):
    from onnxruntime.quantization import CalibrationDataReader

    class Reader(CalibrationDataReader):
        def __init__(self) -> None:
            self.left = iter(samples)

        def get_next(self):
            return next(self.left, None)

    return Reader()


@pytest.fixture(scope="module")
def operators_on_integers(tmp_path_factory):
    """A folder with the network, the same with QLinear operators, and samples."""
    from onnxruntime.quantization import QuantFormat, quantize_static

    folder = tmp_path_factory.mktemp("qoperator")
    model, draw = network(activation="Relu"), np.random.default_rng(1)
    for value in (*model.graph.input, *model.graph.output):
        for dimension, size in zip(value.type.tensor_type.shape.dim, (2, 3), strict=False):
            dimension.dim_value = size
    onnx.save(model, folder / "float.onnx")
    samples = [{"x": draw.standard_normal((2, 3, 16)).astype(np.float32)} for _ in range(4)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quantize_static(
            folder / "float.onnx",
            folder / "int8.onnx",
            reader_of(samples),
            quant_format=QuantFormat.QOperator,
            op_types_to_quantize=["MatMul", "Add"],
        )
    np.savez(folder / "x.npz", **{f"{i}/x": sample["x"] for i, sample in enumerate(samples)})
    return folder


def weight(model: onnx.ModelProto, name: str) -> onnx.TensorProto:
    return next(tensor for tensor in model.graph.initializer if tensor.name == name)


def test_operators_on_integers_blame_nothing_and_a_bad_scale_in_them_is_named(operators_on_integers):
    import optim
    from optim_plugins.diagnose.blame.command import blame_models

    def blame(path):
        with optim.lab(folder / "float.onnx", data=folder / "x.npz") as lab:
            return blame_models(lab, path, {})

    folder = operators_on_integers
    model = onnx.load(folder / "int8.onnx")
    assert {"QLinearMatMul", "QLinearAdd"} <= {node.op_type for node in model.graph.node}
    assert blame(folder / "int8.onnx").blamed == ()
    product = next(node for node in model.graph.node if node.op_type == "QLinearMatMul" and "up1" in node.output[0])
    scale = weight(model, product.input[4])
    scale.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(scale) * np.float32(4), scale.name))
    onnx.save(model, folder / "broken.onnx")
    answer = blame(folder / "broken.onnx")
    assert product.name in answer.blamed[0].nodes
    assert "QLinearMatMul" in str(answer.blamed[0].operators)


def test_weights_in_blocks_blame_nothing_and_noise_in_one_is_named(found, tmp_path):  # noqa: F811
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    def in_blocks(model: onnx.ModelProto) -> onnx.ModelProto:
        quantizer = MatMulNBitsQuantizer(model, block_size=16, is_symmetric=True, bits=8)
        quantizer.process()
        return quantizer.model.model

    clean = in_blocks(network())
    assert sum(node.op_type == "MatMulNBits" for node in clean.graph.node) == 6
    assert found(network(), clean).blamed == ()
    broken = network()
    noisy(broken)
    answer = found(network(), in_blocks(broken))
    assert any("up1" in name for name in first(answer))
    assert len(answer.blamed) == 1


@pytest.mark.parametrize(("end", "blamed"), [(8.0, False), (1.3, True)])
def test_what_clips_is_blamed_though_the_next_node_takes_most_back(found, end, blamed):  # noqa: F811
    """Beside outliers honest steps of 8 bits are long; Tanh gives 1 for what is clipped at 8, and not at 1.3."""
    plain = network()
    outliers = weight(plain, "w1")
    array = numpy_helper.to_array(outliers).copy()
    array[:, 0] *= 60
    outliers.CopyFrom(numpy_helper.from_array(array, "w1"))
    clipping = onnx.ModelProto.FromString(plain.SerializeToString())
    pair = (np.float32(end / 127), "step"), (np.int8(0), "zero")
    clipping.graph.initializer.extend(numpy_helper.from_array(np.asarray(value), name) for value, name in pair)
    add_behind(clipping, "up1", ("QuantizeLinear", "step", "zero"), ("DequantizeLinear", "step", "zero"))
    answer = found(plain, clipping)
    assert answer.drift > 1e-5
    assert first(answer) == (("up1_node", "up1_half0", "up1_half1") if blamed else ())


def with_loop(factor: float) -> onnx.ModelProto:
    """Three times ``state = Tanh(state W * factor)`` between two other nodes; the factor is the body's own."""
    make, info, real = onnx.helper.make_node, onnx.helper.make_tensor_value_info, onnx.TensorProto.FLOAT
    weight_of = np.random.default_rng(0).standard_normal((WIDTH, WIDTH)).astype(np.float32) * 0.3
    body = onnx.helper.make_graph(
        [
            make("MatMul", ["state", "w"], ["product"], "inner_product"),
            make("Mul", ["product", "factor"], ["scaled"], "inner_scale"),
            make("Tanh", ["scaled"], ["next"], "inner_tanh"),
            make("Identity", ["condition"], ["on"], "inner_on"),
        ],
        "body",
        [info("round", 7, []), info("condition", 9, []), info("state", real, None)],
        [info("on", 9, []), info("next", real, None)],
        [numpy_helper.from_array(np.float32(factor), "factor")],
    )
    nodes = [
        make("Sigmoid", ["x"], ["before"], "before_node"),
        make("Loop", ["times", "", "before"], ["looped"], "loop", body=body),
        make("Add", ["looped", "before"], ["y"], "after_node"),
    ]
    weights = [numpy_helper.from_array(np.int64(3), "times"), numpy_helper.from_array(weight_of, "w")]
    graph = onnx.helper.make_graph(nodes, "g", [info("x", real, SHAPE)], [info("y", real, SHAPE)], weights)
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)


def test_a_fault_inside_a_loop_is_blamed_at_the_loop(found):  # noqa: F811
    assert found(with_loop(1.0), with_loop(1.0)).blamed == ()
    answer = found(with_loop(1.0), with_loop(1.5))
    assert first(answer) == ("loop",)
    assert len(answer.blamed) == 1


def test_a_model_without_nodes_hands_on_what_it_is_fed_and_blames_nothing(found):  # noqa: F811
    x = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, SHAPE)
    graph = onnx.helper.make_graph([], "nothing", [x], [x])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10)
    answer = found(model, model)
    assert (answer.blamed, answer.drift, answer.values) == ((), 0.0, 0)
