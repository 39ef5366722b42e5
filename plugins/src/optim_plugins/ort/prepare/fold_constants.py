"""What follows from constants: onnxscript's folding, held back from weights and from what it gets wrong.

The branch of an ``If`` whose condition is a constant takes the place of the ``If``; what it computes may be constant
too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import onnx_ir as ir
from onnxscript.optimizer import fold_constants as fold

from optim_plugins.ort.graph.inferred_shapes import infer_shapes
from optim_plugins.ort.graph.known_values import small_constant
from optim_plugins.ort.prepare.constant_branches import inline_constant_branches

_MOST_ELEMENTS = 16 << 10
"""Constants of more elements are not folded: folding a weight reads it, and writes it anew."""

_STANDARD = ("", "ai.onnx")
_RANDOM = frozenset(
    ("Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")
)
_SEQUENCES = frozenset(("ConcatFromSequence", "SplitToSequence"))
_WITH_LISTS_OF_SPLITS = 18
"""The opset whose Split onnxscript writes in place of a SplitToSequence."""

_HIDDEN = "optim.hidden"


def fold_constants(graph: ir.Model, *, strict: bool = True) -> None:
    """Fold until nothing follows any more; ``strict`` is that of :func:`infer_shapes`."""
    inlined = 1
    while inlined:
        with _hidden_from_folding(graph):
            fold(graph, input_size_limit=_MOST_ELEMENTS, output_size_limit=_MOST_ELEMENTS, should_fold=_unless_large)
        inlined = inline_constant_branches(graph)
        if inlined:  # what an If gave had the rank of no branch, where they differ
            infer_shapes(graph, strict=strict)


@contextmanager
def _hidden_from_folding(graph: ir.Model) -> Iterator[None]:
    """Hide what onnxscript folds wrongly: nodes by a domain that it does not know, and defaults of inputs.

    The branches of such a node are still folded.
    """
    defaults = [(value, value.const_value) for part in graph.graphs() for value in part.inputs]
    for value, _ in defaults:
        value.const_value = None
    opset = graph.opset_imports.get("") or graph.opset_imports.get("ai.onnx") or 1
    hidden = [(node, node.domain) for node in graph.graph.all_nodes() if not _folds_rightly(node, opset)]
    for node, _ in hidden:
        node.domain = _HIDDEN
    try:
        yield
    finally:
        for node, domain in hidden:
            node.domain = domain
        for value, default in defaults:
            value.const_value = default


def _folds_rightly(node: ir.Node, opset: int) -> bool:
    if node.domain not in _STANDARD:
        return True
    if node.op_type == "CastLike":  # a Cast without "saturate" is written for it
        return "saturate" not in node.attributes
    if node.op_type == "Identity":  # what is known of a value inside a branch is taken for what it is outside
        return node.inputs[0] is None or node.inputs[0].graph is node.graph
    if node.op_type in _SEQUENCES:
        sizes_known = node.op_type != "SplitToSequence" or (
            len(node.inputs) > 1 and small_constant(node.inputs[1]) is not None
        )
        return opset >= _WITH_LISTS_OF_SPLITS and sizes_known
    return node.op_type != "If" and not is_random(node)


def is_random(node: ir.Node) -> bool:
    """Whether a node draws numbers; a Dropout does where it may be told to train."""
    if node.op_type not in _RANDOM or node.domain not in _STANDARD:
        return False
    return node.op_type != "Dropout" or (len(node.inputs) > 2 and node.inputs[2] is not None)


def _unless_large(node: ir.Node) -> bool | None:
    """No for a node that reads a weight, else onnxscript's own rules, which fold the Transpose of any."""
    tensors = [value.const_value for value in node.inputs if value is not None]
    return False if any(tensor is not None and tensor.size > _MOST_ELEMENTS for tensor in tensors) else None
