"""Lets a decoder compute the logits of the last tokens alone (:mod:`optim.decoders.conventions`).

Before, of the last layer::

    logits = MatMul(Norm(x + f(x, attended)), head)       x, attended: [batch, tokens, width]

After::

    last = Slice(x, -num_logits_to_keep, end, axis=1)     the same of attended
    logits = MatMul(Norm(last + f(last, last attended)), head)

The cut is made as early as can be: before all nodes that compute each token from this token alone, and whose results
nothing else reads. So it also saves what follows the last attention. With the default 0 it keeps all.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from optim.decoders import KEPT_LOGITS, LOGITS
from optim.onnx import add_constant
from optim_plugins.ort.graph.dimensions import Sizes
from optim_plugins.ort.graph.known_attributes import are_known
from optim_plugins.ort.graph.known_values import scalar
from optim_plugins.ort.graph.node_writer import NodeWriter

_OF_ONE = (
    *("Abs", "Cast", "Elu", "Erf", "Exp", "Gelu", "HardSigmoid", "HardSwish", "Identity", "LeakyRelu", "Neg"),
    *("Reciprocal", "Relu", "Sigmoid", "Softplus", "Sqrt", "Tanh", "FastGelu", "QuickGelu"),
)
_OF_SEVERAL = ("Add", "BiasGelu", "Clip", "Div", "Max", "Min", "Mul", "Pow", "Sub", "Where")
_BY_ELEMENT = frozenset((*_OF_ONE, *_OF_SEVERAL))
_NORMS = frozenset(("LayerNormalization", "SimplifiedLayerNormalization", "RMSNormalization"))
_PRODUCTS = frozenset(("MatMul", "MatMulNBits"))
_KNOWN = {
    **dict.fromkeys(_NORMS, ("axis", "epsilon", "stash_type")),
    "MatMul": (),
    "MatMulNBits": ("K", "N", "accuracy_level", "bits", "block_size", "weight_prepacked"),
    "ReduceMean": ("axes", "keepdims", "noop_with_empty_axes"),
}
"""Attributes of operators that could mix tokens."""

_DOMAINS = ("", "ai.onnx", "com.microsoft")
_TO_THE_END = np.iinfo(np.int64).max


def keep_logits(graph: ir.Model) -> int:
    """Add the input, in place.

    Returns:
        How many nodes then compute the kept tokens alone; 0: the graph has no such output, or it has the input already.
    """
    logits = next((value for value in graph.graph.outputs if value.name == LOGITS), None)
    sizes = Sizes(graph)
    if logits is None or sizes.rank(logits) != 3 or isinstance(sizes.of(logits, 1), int):
        return 0
    if any(value.name == KEPT_LOGITS for value in graph.graph.inputs):
        return 0
    chosen = _each_token_alone(graph, logits, sizes)
    if not chosen:
        return 0
    _cut(graph, chosen)
    return len(chosen)


def _each_token_alone(graph: ir.Model, logits: ir.Value, sizes: Sizes) -> list[ir.Node]:
    """Nodes that lead to the logits and nowhere else, each token by itself; from the logits to the front."""
    chosen: list[ir.Node] = []
    known: set[ir.Node] = set()
    for node in reversed(list(graph.graph)):
        leads_there = all(
            value is logits
            or (bool(value.uses()) and not value.is_graph_output() and all(use.node in known for use in value.uses()))
            for value in node.outputs
        )
        if leads_there and _is_alone(node, sizes) and (node.op_type in _BY_ELEMENT or are_known([node], _KNOWN)):
            chosen.append(node)
            known.add(node)
    return chosen


def _is_alone(node: ir.Node, sizes: Sizes) -> bool:
    """Whether a node computes each place of axis 1 of three from that place alone."""
    if node.domain not in _DOMAINS or not _are_rows(_moving(node), sizes):
        return False
    if node.op_type in _BY_ELEMENT:
        return all(_spreads(value) for value in node.inputs if _is_fixed(value))
    if node.op_type in _PRODUCTS:
        return _moving(node) == [node.inputs[0]] and all(
            len(value.shape) == 2 for value in node.inputs[1:2] if node.op_type == "MatMul" and value and value.shape
        )
    if node.op_type in _NORMS:
        return node.attributes.get_int("axis", -1) in (-1, 2) and _moving(node) == [node.inputs[0]]
    if node.op_type == "ReduceMean":
        return node.attributes.get_int("keepdims", 1) == 1 and _axes(node) in ([-1], [2])
    return False


def _are_rows(values: Sequence[ir.Value], sizes: Sizes) -> bool:
    return bool(values) and all(sizes.rank(value) == 3 for value in values)


def _moving(node: ir.Node) -> list[ir.Value]:
    """Operands that are no constants."""
    return [value for value in node.inputs if value is not None and not _is_fixed(value)]


def _is_fixed(value: ir.Value | None) -> bool:
    if value is None or value.is_graph_input():
        return False
    return value.is_initializer() or ir.convenience.get_const_tensor(value) is not None


def _spreads(value: ir.Value | None) -> bool:
    """Whether a constant is the same for every token."""
    tensor = ir.convenience.get_const_tensor(value) if value is not None else None
    if tensor is None:
        return False
    shape = tensor.shape.numpy()
    return len(shape) < 2 or (len(shape) < 4 and shape[-2] == 1)


def _axes(node: ir.Node) -> list[int]:
    if "axes" in node.attributes:
        return list(node.attributes.get_ints("axes"))
    given = scalar(node.inputs[1]) if len(node.inputs) > 1 else None
    return [] if given is None else [int(given)]


def _cut(graph: ir.Model, chosen: Sequence[ir.Node]) -> None:
    """Write the input, and a Slice of all that the chosen nodes read from others."""
    main, inside = graph.graph, set(chosen)
    asked = add_constant(main, KEPT_LOGITS, np.array(0, np.int64))
    main.inputs.append(asked)
    writer = NodeWriter(graph, "kept")
    writer.before = chosen[-1]
    start = writer.add("Neg", [writer.add("Reshape", [asked, writer.integers([1])])])
    end, axis = writer.integers([_TO_THE_END]), writer.integers([1])
    kept: dict[ir.Value, ir.Value] = {}
    for node in reversed(chosen):
        for place, value in enumerate(node.inputs):
            if value is None or _is_fixed(value) or value.producer() in inside:
                continue
            if value not in kept:
                writer.before = node
                kept[value] = writer.add("Slice", [value, start, end, axis])
                kept[value].shape = _kept(value.shape)
            node.replace_input_with(place, kept[value])
        for output in node.outputs:
            if not output.is_graph_output():  # its shape is the caller's
                output.shape = _kept(output.shape)


def _kept(shape: ir.Shape | None) -> ir.Shape | None:
    return ir.Shape([shape[0], "kept_tokens", shape[2]]) if shape is not None and len(shape) == 3 else None
