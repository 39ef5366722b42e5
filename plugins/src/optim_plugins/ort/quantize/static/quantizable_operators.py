"""The same function in operators that have 8-bit forms.

Before and after::

    factor * Conv(x, W, b) + shift                  Conv(x, factor * W, ...)        BatchNormalization is such a step
    x * Clip(x + 3, 0, 6) / 6, HardSwish(x)         x * HardSigmoid(x)
    Conv(Pad(x, zeros), W, b)                       Conv(x, W, b, pads=...)
    ReduceMean(x, all axes behind the second)       GlobalAveragePool(x), and Squeeze where the axes go

The first two are those of :mod:`optim_plugins.ort.fuse.convolution`; of the operator HardSwish onnxruntime makes its
second form itself, but only when it opens the model. Nothing is approximated; weights are written anew only where steps
go into them. Means of which a normalization is made stay: the runtime has an operator for all of it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from optim.onnx import UniqueNames, add_constant, read_constant
from optim_plugins.ort.fuse.convolution.fuse_convolution import fold

_STANDARD = ("", "ai.onnx")


def make_friendly(graph: ir.Model) -> dict[str, int]:
    """Change a graph in place; what was done how often."""
    counts = fold(graph) | {"Pad folded": 0, "ReduceMean as pooling": 0, "HardSwish written out": 0}
    names = UniqueNames(graph)
    for node in list(graph.graph.all_nodes()):
        if node.domain not in _STANDARD:
            continue
        if node.op_type == "Conv":
            counts["Pad folded"] += _fold_pad(node)
        elif node.op_type == "HardSwish":
            counts["HardSwish written out"] += _write_out(node, names)
        elif node.op_type == "ReduceMean":
            counts["ReduceMean as pooling"] += _pool(node, graph.graph.opset_imports.get("", 1), names)
    RemoveUnusedNodesPass()(graph)
    return {name: count for name, count in counts.items() if count}


def _fold_pad(conv: ir.Node) -> int:
    pad = conv.inputs[0].producer() if conv.inputs[0] is not None else None
    if pad is None or pad.op_type != "Pad" or pad.domain not in _STANDARD or pad.graph is not conv.graph:
        return 0
    pads = read_constant(pad.inputs[1]) if len(pad.inputs) > 1 else None
    value = read_constant(pad.inputs[2]) if len(pad.inputs) > 2 and pad.inputs[2] is not None else np.zeros(())
    mode = pad.attributes["mode"].as_string() if "mode" in pad.attributes else "constant"
    axes_given = len(pad.inputs) > 3 and pad.inputs[3] is not None
    auto = conv.attributes["auto_pad"].as_string() if "auto_pad" in conv.attributes else "NOTSET"
    if pads is None or value is None or np.any(value) or mode != "constant" or axes_given:
        return 0
    if auto not in ("NOTSET", "VALID"):
        return 0
    axes = len(pads) // 2
    around = np.concatenate([pads[2:axes], pads[axes + 2 :]])
    if np.any(pads < 0) or np.any(pads[:2]) or np.any(pads[axes : axes + 2]):
        return 0
    own = conv.attributes["pads"].as_ints() if "pads" in conv.attributes else [0] * len(around)
    conv.attributes["pads"] = ir.AttrInt64s("pads", [int(a + b) for a, b in zip(around, own, strict=True)])
    conv.attributes.pop("auto_pad", None)
    conv.replace_input_with(0, pad.inputs[0])
    return 1


def _write_out(swish: ir.Node, names: UniqueNames) -> int:
    """A HardSwish as ``x * HardSigmoid(x)``."""
    source = swish.inputs[0]
    assert source is not None
    name = names.take(f"{swish.name or swish.outputs[0].name}_gate")
    gate = ir.node("HardSigmoid", [source], {"alpha": 1 / 6, "beta": 0.5}, name=name)
    factor = gate.outputs[0]
    factor.type, factor.shape, factor.name = source.type, source.shape, names.take(f"{name}_output")
    assert swish.graph is not None
    swish.graph.insert_before(swish, gate)
    _take_place(swish, ir.node("Mul", [source, factor], name=swish.name))
    return 1


def _pool(node: ir.Node, opset: int, names: UniqueNames) -> int:
    source = node.inputs[0]
    if source is None or source.shape is None or len(source.shape) < 3 or source.dtype != ir.DataType.FLOAT:
        return 0
    axes = _axes(node)
    rank = len(source.shape)
    if axes is None or sorted(axis % rank for axis in axes) != list(range(2, rank)) or _normalizes(node, source):
        return 0
    pool = ir.node("GlobalAveragePool", [source], name=node.name)
    if "keepdims" in node.attributes and node.attributes["keepdims"].as_int() == 0:
        pool.outputs[0].name = f"{node.outputs[0].name}_pooled"
        pool.outputs[0].type = source.type
        assert isinstance(node.graph, ir.Graph)
        node.graph.insert_before(node, pool)
        last = list(range(2, rank))
        if opset >= 13:
            name = names.take(f"{node.outputs[0].name}_axes")
            axes_value = add_constant(node.graph, name, np.array(last, np.int64))
            _take_place(node, ir.node("Squeeze", [pool.outputs[0], axes_value], name=f"{node.name}_squeeze"))
        else:
            _take_place(node, ir.node("Squeeze", [pool.outputs[0]], {"axes": last}, name=f"{node.name}_squeeze"))
    else:
        _take_place(node, pool)
    return 1


def _normalizes(mean: ir.Node, source: ir.Value) -> bool:
    """Whether a mean is one of squares, or is taken off what it is the mean of."""
    made = source.producer()
    squares = made is not None and (
        made.op_type == "Pow" or (made.op_type == "Mul" and made.inputs[0] is made.inputs[1])
    )
    return squares or any(node.op_type == "Sub" and source in node.inputs for node in mean.outputs[0].consumers())


def _axes(node: ir.Node) -> Sequence[int] | None:
    if "axes" in node.attributes:
        return list(node.attributes["axes"].as_ints())
    array = read_constant(node.inputs[1]) if len(node.inputs) > 1 else None
    return None if array is None else [int(axis) for axis in array.reshape(-1)]


def _take_place(old: ir.Node, new: ir.Node) -> None:
    """Put a node in the place of another, whose first output it takes over, name and all."""
    result = old.outputs[0]
    output = new.outputs[0]
    output.type, output.shape, output.name = result.type, result.shape, result.name
    new.metadata_props.update(old.metadata_props)
    assert old.graph is not None
    old.graph.insert_before(old, new)
    ir.convenience.replace_all_uses_with(result, output, replace_graph_outputs=True)
    old.graph.remove(old, safe=True)
