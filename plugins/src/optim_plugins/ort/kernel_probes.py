"""Kernels of ONNX Runtime's CPU provider, to be timed: products and convolutions in each precision that a pass makes.

Shapes are those of a transformer of middling width (768), one row as a decoder has and 128 as an encoder has, and of
two convolutions in the middle of a residual net. Each is some tenths of a millisecond in float32, on one thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from optim import SessionConfig
from optim.backend import FLOAT32, KernelProbe, KernelRatio

if TYPE_CHECKING:
    import onnx

DYNAMIC, STATIC, SIGNED = "int8-dynamic", "int8-static", "int8-static-signed"
FLOAT16 = "float16"
PRODUCTS = ("MatMul", "Gemm")
"""Gemm has the kernels of MatMul: it is not timed apart."""

_WIDTH, _BLOCK = 768, 128
_CONVOLUTIONS = {"3x3": (64, 3, 28), "1x1": (256, 1, 14)}
_ONE_THREAD = SessionConfig({"intra_op_num_threads": 1})
_OPSET, _IR_VERSION = 17, 8


def blocks_of(bits: int) -> str:
    """The precision of weights in blocks of so many bits."""
    return f"int{bits}-blocks"


def probes() -> Sequence[KernelProbe]:
    """All of them; what this build of the runtime has no kernel for is left out when it is opened."""
    return tuple(replace(probe, session=_ONE_THREAD) for probe in _all())


def known() -> Sequence[KernelRatio]:
    """What the table of assumptions says of this processor."""
    from optim.processor import this_processor
    from optim_plugins.ort import hardware

    here = this_processor()
    assumed = {
        DYNAMIC: hardware.DYNAMIC_RATIO,
        STATIC: hardware.STATIC_RATIO,
        SIGNED: hardware.SIGNED_RATIO,
        FLOAT16: hardware.FLOAT16_RATIO,
        blocks_of(8): hardware.BLOCKS_RATIO,
        blocks_of(4): hardware.BLOCKS_RATIO,
    }
    table = {precision: float(ratio.value(here)) for precision, ratio in assumed.items()}
    return tuple(
        KernelRatio(operator, precision, "", ratio)
        for precision, ratio in table.items()
        for operator in ("MatMul", "Conv")
        if operator != "Conv" or precision in (STATIC, SIGNED, FLOAT16)
    )


def _all() -> Iterator[KernelProbe]:
    for rows in (1, 128):
        shape = "1 row" if rows == 1 else f"{rows} rows"
        made = {
            FLOAT32: _product(rows, np.float32),
            FLOAT16: _product(rows, np.float16),
            DYNAMIC: _dynamic_product(rows),
            STATIC: _quantized("MatMul", [rows, _WIDTH], [_WIDTH, _WIDTH], "uint8"),
            SIGNED: _quantized("MatMul", [rows, _WIDTH], [_WIDTH, _WIDTH], "int8"),
            blocks_of(8): _blocked_product(rows, 8),
            blocks_of(4): _blocked_product(rows, 4),
        }
        yield from (KernelProbe("MatMul", precision, shape, model, rows=rows) for precision, model in made.items())
    for shape, (channels, kernel, size) in _CONVOLUTIONS.items():
        data, weight = [1, channels, size, size], [channels, channels, kernel, kernel]
        yield KernelProbe("Conv", FLOAT32, shape, _convolution(data, weight, np.float32))
        yield KernelProbe("Conv", FLOAT16, shape, _convolution(data, weight, np.float16))
        yield KernelProbe("Conv", STATIC, shape, _quantized("Conv", data, weight, "uint8"))
        yield KernelProbe("Conv", SIGNED, shape, _quantized("Conv", data, weight, "int8"))


def _product(rows: int, kind: type[np.floating]) -> bytes:
    weight = _random([_WIDTH, _WIDTH]).astype(kind)
    return _model([_node("MatMul", ["x", "w"], ["y"])], {"w": weight}, [rows, _WIDTH], [rows, _WIDTH], kind)


def _convolution(data: list[int], weight: list[int], kind: type[np.floating]) -> bytes:
    node = _node("Conv", ["x", "w"], ["y"], pads=_pads(weight))
    return _model([node], {"w": _random(weight).astype(kind)}, data, data, kind)


def _dynamic_product(rows: int) -> bytes:
    weights = {"w": _integers([_WIDTH, _WIDTH]), "s": np.full(_WIDTH, 0.01, np.float32)}
    node = _node("DynamicQuantizeMatMul", ["x", "w", "s"], ["y"], domain="com.microsoft")
    return _model([node], weights, [rows, _WIDTH], [rows, _WIDTH])


def _blocked_product(rows: int, bits: int) -> bytes:
    blocks = _WIDTH // _BLOCK
    packed = np.random.default_rng(0).integers(0, 255, (_WIDTH, blocks, _BLOCK * bits // 8), dtype=np.uint8)
    scales = np.full(_WIDTH * blocks, 0.01, np.float32)
    sizes = {"K": _WIDTH, "N": _WIDTH, "bits": bits, "block_size": _BLOCK, "accuracy_level": 4}
    node = _node("MatMulNBits", ["x", "w", "s"], ["y"], domain="com.microsoft", **sizes)
    return _model([node], {"w": packed, "s": scales}, [rows, _WIDTH], [rows, _WIDTH])


def _quantized(operator: str, data: list[int], weight: list[int], activations: str) -> bytes:
    """A node between integers, as QDQ says it: quantized before, and its result too."""
    zero = np.zeros((), np.dtype(activations)) if activations == "int8" else np.full((), 128, np.uint8)
    scale = np.full((), 0.03, np.float32)
    weights = {"w": _integers(weight), "s": scale, "z": zero, "ws": scale, "wz": np.zeros((), np.int8)}
    pads = {"pads": _pads(weight)} if operator == "Conv" else {}
    nodes = [
        _node("QuantizeLinear", ["x", "s", "z"], ["xq"]),
        _node("DequantizeLinear", ["xq", "s", "z"], ["xd"]),
        _node("DequantizeLinear", ["w", "ws", "wz"], ["wd"]),
        _node(operator, ["xd", "wd"], ["f"], **pads),
        _node("QuantizeLinear", ["f", "s", "z"], ["yq"]),
        _node("DequantizeLinear", ["yq", "s", "z"], ["y"]),
    ]
    return _model(nodes, weights, data, data)


def _pads(weight: list[int]) -> list[int]:
    return [weight[2] // 2] * 4


def _random(shape: list[int]) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape) * 0.05


def _integers(shape: list[int]) -> np.ndarray:
    return np.random.default_rng(0).integers(-100, 100, shape).astype(np.int8)


def _node(operator: str, inputs: list[str], outputs: list[str], **attributes: Any) -> onnx.NodeProto:
    from onnx import helper

    return helper.make_node(operator, inputs, outputs, **attributes)


def _model(
    nodes: list[onnx.NodeProto],
    weights: dict[str, np.ndarray],
    data: list[int],
    result: list[int],
    kind: type[np.floating] = np.float32,
) -> bytes:
    from onnx import helper, numpy_helper

    element = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    ends = [helper.make_tensor_value_info(name, element, shape) for name, shape in (("x", data), ("y", result))]
    constants = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "kernel", ends[:1], ends[1:], constants)
    opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid("com.microsoft", 1)]
    made: bytes = helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION).SerializeToString()
    return made
