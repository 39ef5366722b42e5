"""GPTQ for weights of 4 bits: NNCF has it for OpenVINO's own models, and what it finds comes back into the ONNX graph.

Before, as NNCF writes it of the ONNX graph, rounded to nearest::

    W = DequantizeLinear(W_quantized, W_scale, W_zero_point)     int4 [K, N], float32 [K / group, N]

After: the same nodes, with the codes and scales of GPTQ, which OpenVINO's model of the same graph has as::

    W = Transpose(Reshape((W - W/zero_point) * W/scale))         int4 [N, K / group, group], float16 [N, K / group, 1]

Method: Frantar et al. 2022. What one column loses by being rounded is made up for in the columns still to come, as far
as the samples show how their inputs go together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import onnx
    import openvino
    from numpy.typing import NDArray

    from optim.arrays import Feeds

_MARK = "gptq:"
_PARTS = {"_quantized": "", "_scale": "/scale", "_zero_point": "/zero_point"}
"""What NNCF adds to the name of a weight in ONNX, and in OpenVINO's model."""


def round_by_gptq(
    made: onnx.ModelProto, given: onnx.ModelProto, nncf: Any, data: Sequence[Feeds], options: Mapping[str, Any]
) -> list[str]:
    """Round the weights of products in 4 bits anew; ``made`` is changed.

    Args:
        made: what NNCF compressed, in opset 21 or later.
        given: the same graph in floats.
        nncf: the library.
        data: samples.
        options: mode, group size and what else ``nncf.compress_weights`` takes.

    Returns:
        Weights in 4 bits that stay rounded to nearest: tables, and what OpenVINO does not have under their names.
    """
    few = _in_few_bits(made)
    model = _marked(given, few)
    rounded = nncf.compress_weights(
        model,
        **options,
        gptq=True,
        all_layers=True,
        dataset=nncf.Dataset(list(data)),
        subset_size=len(data),
        ignored_scope=nncf.IgnoredScope(patterns=[f"^(?!{_MARK}).*"], validate=False),
    )
    found = {op.friendly_name: op for op in rounded.get_ops() if op.get_type_name() == "Constant"}
    there = {tensor.name: tensor for tensor in made.graph.initializer}
    left = []
    for name in few:
        parts = {ours: found.get(f"{_MARK}{name}{theirs}") for ours, theirs in _PARTS.items() if name + ours in there}
        if any(one is None for one in parts.values()):
            left.append(name)
            continue
        for ours, constant in parts.items():
            _fill(there[name + ours], constant)
    return left


def _in_few_bits(made: onnx.ModelProto) -> list[str]:
    from onnx import TensorProto

    small = (TensorProto.INT4, TensorProto.UINT4)
    end = "_quantized"
    return [
        one.name[: -len(end)] for one in made.graph.initializer if one.name.endswith(end) and one.data_type in small
    ]


def _marked(graph: onnx.ModelProto, names: Sequence[str]) -> openvino.Model:
    """OpenVINO's model, whose products with these weights say so in their names.

    Their weights lie as (out, in) there, the only way in which NNCF's GPTQ takes them.
    """
    from openvino import opset13

    from optim_openvino.runtime.core import core

    model = core().read_model(graph.SerializeToString(), b"")
    wanted, turned = frozenset(names), dict[str, Any]()
    for product in model.get_ordered_ops():
        if product.get_type_name() != "MatMul":
            continue
        weight, form = product.input_value(1).get_node(), product.get_attributes()
        name = weight.friendly_name
        if weight.get_type_name() != "Constant" or name not in wanted or form["transpose_b"]:
            continue
        if name not in turned:
            turned[name] = opset13.constant(np.ascontiguousarray(weight.data.T))
            turned[name].friendly_name = f"{_MARK}{name}"
        marked = opset13.matmul(product.input_value(0), turned[name], form["transpose_a"], transpose_b=True)
        marked.friendly_name = f"{_MARK}{product.friendly_name}"
        product.output(0).replace(marked.output(0))
    return model


def _fill(tensor: onnx.TensorProto, constant: Any) -> None:
    """Let a tensor, (in, out) or (groups, out) or (out), have the values of OpenVINO's (out, groups, ...)."""
    from onnx import helper, numpy_helper

    values = _values(constant)
    turned = values.reshape(values.shape[0], -1).T.reshape(tuple(tensor.dims))
    dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type)
    tensor.CopyFrom(numpy_helper.from_array(turned.astype(dtype), tensor.name))


def _values(constant: Any) -> NDArray[Any]:
    """Of a constant; of 4 bits, two to a byte, the first in the lower half."""
    kind = constant.get_element_type()
    if kind.bitwidth != 4:
        return np.asarray(constant.data)
    packed = np.asarray(constant.data).view(np.uint8).reshape(-1)
    codes = np.stack([packed & 15, packed >> 4], -1).reshape(tuple(constant.shape))
    return codes if kind.get_type_name() == "u4" else (codes ^ 8).astype(np.int8) - 8
