"""Reshapes with constant targets, and products without the Reshapes around them.

Exporters compute the target of a Reshape from shapes, in each layer anew: five small nodes for every one. Where each
size is shown to be a number or the input's own at the same place, the target becomes a constant::

    Reshape(x, Concat(Unsqueeze(Gather(Shape(y), 0)), -1, 12, 64))      ->      Reshape(x, [0, -1, 12, 64])

A product of rows that were flattened for it, as torch's Conv1D is exported, needs no flattening::

    Reshape(Gemm(Reshape(x, [-1, k]), w, c), [b, s, n])                 ->      MatMul(x, w) + c
"""

from __future__ import annotations

import onnx_ir as ir

from optim_plugins.ort.graph.dimensions import Sizes
from optim_plugins.ort.graph.known_attributes import are_known
from optim_plugins.ort.graph.known_values import producer, small_constant
from optim_plugins.ort.graph.node_writer import NodeWriter, take_over

_KNOWN = {"Gemm": ("alpha", "beta", "transA", "transB"), "Reshape": ("allowzero",)}
_STANDARD = ("", "ai.onnx")


def shorten_reshapes(graph: ir.Model) -> int:
    """Make targets constant and unflatten products, in place; how many of both."""
    sizes = Sizes(graph)
    writer = NodeWriter(graph, "reshape")
    nodes = [node for node in graph.graph if node.domain in _STANDARD]
    unflattened = sum(_unflatten(node, sizes, writer) for node in nodes if node.op_type == "Gemm")
    fixed = sum(_fix_target(node, sizes, writer) for node in nodes if node.op_type == "Reshape")
    return unflattened + fixed


def _fix_target(reshape: ir.Node, sizes: Sizes, writer: NodeWriter) -> bool:
    source, target = reshape.inputs[0], sizes.target(reshape)
    if source is None or target is None or small_constant(reshape.inputs[1]) is not None or 0 in target:
        return False
    axes = sizes.rank(source) or 0
    fixed: list[int] = []
    for axis, size in enumerate(target):
        if not isinstance(size, int) and (axis >= axes or size is None or size != sizes.of(source, axis)):
            return False
        fixed.append(size if isinstance(size, int) else 0)
    if not are_known([reshape], _KNOWN):
        return False
    reshape.replace_input_with(1, writer.integers(fixed))
    reshape.attributes.pop("allowzero", None)
    return True


def _unflatten(gemm: ir.Node, sizes: Sizes, writer: NodeWriter) -> bool:
    flatten = producer(gemm.inputs[0], "Reshape")
    source = flatten.inputs[0] if flatten is not None else None
    weight = gemm.inputs[1]
    if source is None or weight is None or not _is_plain(gemm) or weight.const_value is None:
        return False
    axes = sizes.rank(source)
    rows, columns = (int(size) for size in weight.const_value.shape.numpy())
    if axes is None or axes < 3 or sizes.number(source, axes - 1) != rows or sizes.rank(gemm.inputs[0]) != 2:
        return False
    whole = [*(sizes.of(source, axis) for axis in range(axes - 1)), columns]
    readers = [use.node for use in gemm.outputs[0].uses()]
    for reader in readers:
        target = sizes.target(reader) if reader.op_type == "Reshape" else None
        if target is None or len(target) != axes or sizes.differing(target, whole) > 1:
            return False
    if gemm.outputs[0].is_graph_output() or not readers or flatten is None or not _adds_rows(gemm, sizes):
        return False
    if not are_known((gemm, flatten, *readers), _KNOWN):
        return False
    writer.before = gemm
    result = writer.add("MatMul", [source, weight], name=gemm.name)
    result.producer().metadata_props.update(gemm.metadata_props)  # type: ignore[union-attr]
    if len(gemm.inputs) > 2 and gemm.inputs[2] is not None:
        result.type, result.shape = readers[0].outputs[0].type, readers[0].outputs[0].shape
        result = writer.add("Add", [result, gemm.inputs[2]], name=f"{gemm.name}_bias")
    for reader in readers:
        take_over(reader.outputs[0], result)
    return True


def _adds_rows(gemm: ir.Node, sizes: Sizes) -> bool:
    """Whether a Gemm adds the same to each row, if anything."""
    addend = gemm.inputs[2] if len(gemm.inputs) > 2 else None
    axes = sizes.rank(addend)
    return addend is None or (axes is not None and (axes < 2 or sizes.of(addend, axes - 2) == 1))


def _is_plain(gemm: ir.Node) -> bool:
    """Whether a Gemm is ``a @ w + c``, nothing scaled or transposed."""
    scales = [gemm.attributes.get_float(name, 1.0) for name in ("alpha", "beta")]
    return scales == [1.0, 1.0] and not any(gemm.attributes.get_int(name, 0) for name in ("transA", "transB"))
