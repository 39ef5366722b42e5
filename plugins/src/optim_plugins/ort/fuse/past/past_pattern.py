"""Finds the past of a decoder: inputs that are joined to the keys and values of an attention, and returned.

The pattern, for keys as for values::

    present = Concat(past, new, axis=2)        past an input, present an output: [batch, key heads, tokens, head size]
    y = attention(q, present)

The lengths: tokens of the past and new ones are as many as the mask has columns, new ones as many as there are ids.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import onnx_ir as ir

from optim_plugins.ort.fuse.attention_pattern import Attention, find_attention
from optim_plugins.ort.graph.dimensions import Sizes
from optim_plugins.ort.graph.known_values import producer

_NAMED_PAST = re.compile(r"past|cache", re.IGNORECASE)
_DTYPES = (ir.DataType.FLOAT, ir.DataType.FLOAT16)
"""The kernel computes in these."""

_GRANULE = 8
"""The kernel takes heads whose size is a multiple of this."""


@dataclass(frozen=True)
class Joined:
    """``present = Concat(past, new)``."""

    past: ir.Value
    new: ir.Value
    present: ir.Value


@dataclass(frozen=True)
class PastBlock:
    """An attention over a past."""

    attention: Attention
    key: Joined
    value: Joined


@dataclass(frozen=True)
class PastFound:
    """Every attention over a past, and the inputs that tell lengths.

    Attributes:
        blocks: in the order of the graph.
        ids: [batch, new tokens].
        mask: [batch, tokens of the past and new ones].
    """

    blocks: tuple[PastBlock, ...]
    ids: ir.Value
    mask: ir.Value


def find_past(graph: ir.Model, sizes: Sizes) -> PastFound | str:
    """The past of a graph; or why it cannot lie in one buffer with the present."""
    other_layout = _other_layout(graph)
    if other_layout is not None:
        return other_layout
    blocks, missed = find_attention(graph, sizes, _DTYPES)
    found: list[PastBlock] = []
    for block in blocks:
        one = _with_past(block)
        if isinstance(one, str):
            return one
        if one is not None:
            found.append(one)
    if not found:
        return _no_past(graph, missed)
    ids, mask = _input(graph, "input_ids"), _input(graph, "attention_mask")
    if ids is None or mask is None:
        absent = "input_ids" if ids is None else "attention_mask"
        return f"the graph has no input {absent} of two axes, which tells how many tokens there are"
    covered = {value for one in found for value in (one.key.past, one.value.past)}
    other = [v for v in graph.graph.inputs if v not in covered and _NAMED_PAST.search(v.name or "") and _rank(v) > 2]
    if other:
        why = f": {missed[0]}" if missed else ""
        return f"input '{other[0].name}' is joined to no keys or values of an attention that was recognized{why}"
    return PastFound(tuple(found), ids, mask)


def _with_past(block: Attention) -> PastBlock | str | None:
    """The block with its past; None where it has none; why the operator cannot take it."""
    key, value = _joined(block.key), _joined(block.value)
    if key is None and value is None:
        return None
    if key is None or value is None:
        named = (block.key if key is None else block.value).name
        return f"{block.softmax.name}: '{named}' is not an input joined to new tokens"
    if block.head_size % _GRANULE:
        return (
            f"{block.softmax.name}: its heads have size {block.head_size}, and the kernel takes multiples of {_GRANULE}"
        )
    return PastBlock(block, key, value)


def _joined(value: ir.Value | None) -> Joined | None:
    """How a value was joined of a past and new tokens; None where it was not."""
    node = producer(value, "Concat")
    if node is None or len(node.inputs) != 2 or not node.outputs[0].is_graph_output():
        return None
    past, new = node.inputs
    if past is None or new is None or not past.is_graph_input():
        return None
    return Joined(past, new, node.outputs[0])


def _other_layout(graph: ir.Model) -> str | None:
    """Names the first past that is joined along another axis than the third of four."""
    for node in graph.graph:
        joined = _joined(node.outputs[0])
        axis = node.attributes.get_int("axis", 0)
        if joined is not None and (axis not in (2, -2) or _rank(joined.past) != 4):
            shape = ", ".join(str(size) for size in joined.past.shape or ())
            grows = f"past '{joined.past.name}' [{shape}] grows by axis {axis}"
            return f"{grows}, and is not [batch, heads, tokens, head size]"
    return None


def _no_past(graph: ir.Model, missed: list[str]) -> str:
    named = [value.name for value in graph.graph.inputs if _NAMED_PAST.search(value.name or "") and _rank(value) > 2]
    if not named:
        return "the graph has no past: none of its inputs is joined to keys and values that it returns"
    why = f": {missed[0]}" if missed else "; its attention may be fused already"
    return f"no attention over the past '{named[0]}' was recognized{why}"


def _input(graph: ir.Model, name: str) -> ir.Value | None:
    return next((value for value in graph.graph.inputs if value.name == name and _rank(value) == 2), None)


def _rank(value: ir.Value) -> int:
    return len(value.shape) if value.shape is not None else 0
