"""What a model of integers computes where no kernel saturates: what a pass is held to on processors whose kernels do.

Kernels for AVX2, and for AVX512 without VNNI, add pairs of products of 8 bits in 16 bits, and what does not fit is
lost. How much depends on the processor and not on the pass. The model with the same sums and nothing lost::

    DequantizeLinear(w) -> MatMul                            as it is, with the runtime's optimizations off: in floats
    MatMulInteger(q: uint8, w: int8)                    ->   MatMulInteger(q, w + 128: uint8), zero point 128

Sums of unsigned with unsigned bytes are added in 32 bits by all kernels.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from optim.arrays import Array
from optim.backend import Backend
from optim.errors import OptimError
from optim.model import Model, SessionConfig
from optim.onnx import OnnxRuntimeBackend
from optim.providers import CPU
from optim.target import Target

if TYPE_CHECKING:
    import onnx_ir as ir

_WEIGHTS = {
    "QLinearConv": (2, ((3, 5),)),
    "QLinearMatMul": (2, ((3, 5),)),
    "MatMulInteger": (2, ((1, 3),)),
    "ConvInteger": (2, ((1, 3),)),
    "DynamicQuantizeMatMul": (None, ((1, 3),)),
    "MatMulIntegerToFloat": (4, ((1, 5),)),
    "QGemm": (2, ((3, 5),)),
    "QAttention": (6, ((1, 7),)),
    "DynamicQuantizeLSTM": (None, ((1, 9), (2, 11))),
}
"""Operators of integers: which input is the zero point of what is multiplied, and which are weights and their own."""

_READS_WEIGHTS_AS_FLOATS = "DequantizeLinear"
_SIZE = 64
"""Of the product that is tried: more than one tile of every kernel."""


class OnnxRuntimeCpu(OnnxRuntimeBackend):
    """The runtime that core itself knows, on the processor."""

    name = "onnxruntime"


def saturates(backend: Backend, target: Target, folder: Path) -> bool:
    """Whether a backend loses something of a product of 8 bits whose every pair of neighbours is too large for 16 bits.

    Args:
        backend: runs it here; one that cannot is taken to lose nothing.
        target: where.
        folder: for the product; it is made once.
    """
    from optim.onnx import describe_model

    path = folder / "largest_sums.onnx"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        _write_largest_sums(path)
    try:
        with backend.open(describe_model(path), target) as session:
            (found,) = session.run({"x": np.full((_SIZE, _SIZE), 255, np.float32)}).values()
    except OptimError:
        return False
    return bool(np.abs(np.asarray(found, np.float64) / (255 * 127 * _SIZE) - 1).max() > 1 / 255)


@dataclass(frozen=True, slots=True)
class ExactIntegers:
    """A model whose sums lose nothing.

    Attributes:
        model: opened as it is written.
        backend: computes it so.
        target: the processor.
    """

    model: Model
    backend: Backend
    target: Target


def exact_integers(model: Model, store: Path) -> ExactIntegers | None:
    """The model computed without a loss in sums of integers; None where it has none.

    Args:
        model: in a store.
        store: folder of the store.
    """
    from optim.engine.testing import save_in_store

    graph = model.ir()
    nodes = list(graph.graph.all_nodes())
    shifted = sum([_shift_weights(node) for node in nodes if node.op_type in _WEIGHTS])
    if not shifted and not any(node.op_type == _READS_WEIGHTS_AS_FLOATS for node in nodes):
        return None
    made = save_in_store(graph, store) if shifted else model
    as_written = SessionConfig({"graph_optimization_level": "ORT_DISABLE_ALL"})
    return ExactIntegers(made.with_session(as_written), OnnxRuntimeCpu(), Target("cpu", "ort", CPU, device="CPU"))


def _shift_weights(node: ir.Node) -> bool:
    """Have its signed weights unsigned; not where what they are multiplied with is signed: there is no such kernel."""
    zero, pairs = _WEIGHTS[node.op_type]
    if zero is not None and (known := _constant(node, zero)) is not None and known.dtype == np.int8:
        return False
    shifted = False
    for weight, zero_point in pairs:
        values = _constant(node, weight)
        if values is None or values.dtype != np.int8:
            continue
        before = _constant(node, zero_point)
        moved = np.zeros((), np.int8) if before is None else before
        _set_input(node, weight, _unsigned(values))
        _set_input(node, zero_point, _unsigned(moved))
        shifted = True
    return shifted


def _unsigned(values: Array) -> Array:
    return (values.astype(np.int16) + 128).astype(np.uint8)


def _constant(node: ir.Node, index: int) -> Array | None:
    value = node.inputs[index] if index < len(node.inputs) else None
    return value.const_value.numpy() if value is not None and value.const_value is not None else None


def _set_input(node: ir.Node, index: int, array: Array) -> None:
    import onnx_ir as ir

    graph = node.graph
    assert isinstance(graph, ir.Graph)
    name = f"{node.outputs[0].name}_exact_{index}"
    value = ir.Value(name=name, const_value=ir.tensor(array, name=name))
    graph.register_initializer(value)
    if index >= len(node.inputs):
        node.resize_inputs(index + 1)
    node.replace_input_with(index, value)


def _write_largest_sums(path: Path) -> None:
    """Each element of the product is 64 times 255 * 127, and all is written as pairs of Q and DQ."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    scale = {"x": 1.0, "w": 1.0, "y": 127.0 * _SIZE}
    values = [numpy_helper.from_array(np.array(one, np.float32), f"{name}_scale") for name, one in scale.items()]
    values += [
        numpy_helper.from_array(np.zeros((), np.uint8), "x_zero"),
        numpy_helper.from_array(np.zeros((), np.int8), "w_zero"),
        numpy_helper.from_array(np.full((_SIZE, _SIZE), 127, np.int8), "w_integers"),
    ]

    def pair(name: str, zero: str) -> list[onnx.NodeProto]:
        rest = [f"{name}_scale", zero]
        return [
            helper.make_node("QuantizeLinear", [name, *rest], [f"{name}_integers"]),
            helper.make_node("DequantizeLinear", [f"{name}_integers", *rest], [f"{name}_floats"]),
        ]

    nodes = [
        *pair("x", "x_zero"),
        *pair("w", "w_zero")[1:],
        helper.make_node("MatMul", ["x_floats", "w_floats"], ["y"]),
        *pair("y", "x_zero"),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [_SIZE, _SIZE]) for name in ("x", "y_floats")]
    graph = helper.make_graph(nodes, "largest_sums", ends[:1], ends[1:], values)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, path)
