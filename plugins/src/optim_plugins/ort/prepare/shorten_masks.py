"""Masks of exported encoders, without what computes positions only to look a mask up at every one of them.

Exporters trace the functions that models build masks with: positions of the batch and of the tokens are counted,
compared with 0, expanded, stacked and used to gather the mask that was there all along::

    row, column = Unsqueeze(Range(0, batch, 1)), Unsqueeze(Range(0, tokens, 1))
    found = GatherND(mask, Concat(Unsqueeze(Expand(row, s)), Unsqueeze(Expand(column, s))))      [batch, 1, 1, tokens]
    seen = And(GreaterOrEqual(column, 0), found)                                            [batch, 1, tokens, tokens]

becomes ``seen = Unsqueeze(mask)``, [batch, 1, 1, tokens]. Three things are shown for that, one by one:

* an index that holds every place of a tensor in its order gathers the tensor itself;
* what counts from 0 on is never below 0, so ``And`` with it changes a shape at most;
* what only makes a value larger (such an ``And``, an ``Expand``) is not needed where whatever reads the value is
  broadcast to that size anyway.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from optim.onnx import read_constant
from optim_plugins.ort.graph.dimensions import Sizes
from optim_plugins.ort.graph.known_attributes import are_known
from optim_plugins.ort.graph.known_values import producer, scalar, small_constant
from optim_plugins.ort.graph.needless_size import NeedlessSize
from optim_plugins.ort.graph.node_writer import NodeWriter, take_over

_IN_ORDER = ("Unsqueeze", "Squeeze", "Reshape", "Cast", "Identity")
"""They hand elements on in their order."""

_MOST_ELEMENTS = 16 << 10
"""Larger constant indices are not read: folding makes none of more."""

_UNSQUEEZE_BY_INPUT = 13
"""The opset since which axes are an input; exporters of such masks write later ones."""

_COUNTING = (ir.DataType.INT32, ir.DataType.INT64)
"""Types that hold every position: others wrap around."""

_CLAIMS = {"GreaterOrEqual": (0, 1, False), "Greater": (0, 1, True), "LessOrEqual": (1, 0, False), "Less": (1, 0, True)}
"""Which operand of a comparison is claimed to be at least the other, and whether strictly more."""

_KNOWN = {"GatherND": ("batch_dims",)}


def shorten_masks(graph: ir.Model) -> int:
    """Shorten in place; how many nodes were replaced. What only they read is left for whoever drops unused nodes."""
    nodes = [node for node in graph.graph if node.domain in ("", "ai.onnx")]
    if not any(node.op_type in ("And", "Expand", "GatherND") for node in nodes):
        return 0
    sizes = Sizes(graph)
    writer = NodeWriter(graph, "mask")
    count = sum(_looked_up(node, sizes, writer) for node in nodes if node.op_type == "GatherND")
    sizes = Sizes(graph) if count else sizes  # more is known of what a mask is now
    needless = NeedlessSize(graph.graph, sizes)
    count += sum(_always(node, needless) for node in nodes if node.op_type == "And")
    return count + sum(_expanded(node, sizes, needless) for node in nodes if node.op_type == "Expand")


def _looked_up(gather: ir.Node, sizes: Sizes, writer: NodeWriter) -> bool:
    """Replace a GatherND of every place of a tensor by the tensor."""
    source, index = gather.inputs[0], gather.inputs[1]
    axes = sizes.rank(source)
    if source is None or not axes or gather.attributes.get_int("batch_dims", 0) != 0 or not are_known([gather], _KNOWN):
        return False
    writer.before = gather
    constant = read_constant(index, at_most=_MOST_ELEMENTS)
    if constant is not None:
        whole = [sizes.number(source, axis) for axis in range(axes)]
        if None in whole or not _is_every_place(constant, [size or 0 for size in whole]):
            return False
        take_over(gather.outputs[0], writer.reshape(source, constant.shape[:-1]))
        return True
    along = _axes_of_index(index, source, axes, sizes)
    if along is None or writer.opset < _UNSQUEEZE_BY_INPUT:
        return False
    added = [axis for axis in range((sizes.rank(index) or 0) - 1) if axis not in along]
    result = writer.add("Unsqueeze", [source, writer.integers(added)]) if added else writer.add("Identity", [source])
    take_over(gather.outputs[0], result)
    return True


def _is_every_place(index: np.ndarray[tuple[int, ...], np.dtype[np.int64]], shape: list[int]) -> bool:
    places = np.indices(shape).reshape(len(shape), -1).T
    return index.shape[-1] == len(shape) and np.array_equal(index.reshape(-1, len(shape)), places)


def _axes_of_index(index: ir.Value | None, source: ir.Value, axes: int, sizes: Sizes) -> list[int] | None:
    """At which axes of an index each axis of the source is counted, in their order; None where it is not so."""
    stack = producer(index, "Concat")
    if (
        stack is None
        or len(stack.inputs) != axes
        or stack.attributes.get_int("axis", 0) not in (-1, _last(stack, sizes))
    ):
        return None
    along = []
    for axis, part in enumerate(stack.inputs):
        column = producer(part, "Unsqueeze")
        counted = column.inputs[0] if column is not None else None
        at = _counted_along(counted, source, axis, sizes)
        if column is None or scalar(column.inputs[1]) not in (-1, sizes.rank(counted)) or at is None:
            return None
        along.append(at)
    grid = [sizes.of(index, at) for at in range(_last(stack, sizes))]
    own = {at: sizes.of(source, axis) for axis, at in enumerate(along)}
    is_grid = along == sorted(set(along)) and all(size == own.get(at, 1) for at, size in enumerate(grid))
    return along if is_grid else None


def _last(stack: ir.Node, sizes: Sizes) -> int:
    return (sizes.rank(stack.outputs[0]) or 0) - 1


def _counted_along(value: ir.Value | None, source: ir.Value, axis: int, sizes: Sizes) -> int | None:
    """The one axis along which a value counts every place of an axis of the source from 0 on."""
    expand = producer(value, "Expand")
    counted = expand.inputs[0] if expand is not None else value
    rank, whole = sizes.rank(counted), sizes.rank(value)
    bounds = _range(counted)
    if rank is None or whole is None or bounds is None:
        return None
    longer = [at for at in range(rank) if sizes.of(counted, at) != 1]
    start, end = bounds
    from_zero = scalar(start) == 0 and end is not None and sizes.single(end) == sizes.of(source, axis)
    return longer[0] + whole - rank if from_zero and len(longer) == 1 else None


def _range(value: ir.Value | None) -> tuple[ir.Value | None, ir.Value | None] | None:
    """Start and end of the Range of step 1 whose numbers a value holds in their order."""
    while (node := producer(value, *_IN_ORDER)) is not None:
        if node.op_type == "Cast" and node.attributes.get_int("to", 0) not in _COUNTING:
            return None
        value = node.inputs[0]
    node = producer(value, "Range")
    return (node.inputs[0], node.inputs[1]) if node is not None and scalar(node.inputs[2]) == 1 else None


def _always(node: ir.Node, needless: NeedlessSize) -> bool:
    """Replace an And of which one side is always true by the other side."""
    if not are_known([node], _KNOWN):
        return False
    for side, other in (node.inputs, node.inputs[::-1]):
        if side is not None and other is not None and _is_true(side) and needless.give_up(node.outputs[0], other):
            return True
    return False


def _is_true(value: ir.Value | None) -> bool:
    """Whether a value is true everywhere, in every run."""
    array = small_constant(value)
    if array is not None:
        return array.dtype == bool and bool(array.all())
    node = producer(value)
    if node is None:
        return False
    if node.op_type == "And":
        return all(map(_is_true, node.inputs))
    if node.op_type in ("Expand", "Identity", "Reshape", "Unsqueeze"):
        return _is_true(node.inputs[0])
    if node.op_type not in _CLAIMS:
        return False
    more, less, strictly = _CLAIMS[node.op_type]
    return _is_at_least(node.inputs[more], node.inputs[less], strictly=strictly)


def _is_at_least(counted: ir.Value | None, limit: ir.Value | None, *, strictly: bool) -> bool:
    bounds, least = _range(counted), scalar(limit)
    start = scalar(bounds[0]) if bounds is not None else None
    return start is not None and least is not None and (start > least or (start == least and not strictly))


def _expanded(node: ir.Node, sizes: Sizes, needless: NeedlessSize) -> bool:
    """Replace an Expand by what it expands, where that is broadcast anyway."""
    source, result = node.inputs[0], node.outputs[0]
    if source is None or sizes.rank(source) is None or sizes.rank(source) != sizes.rank(result):
        return False
    if not are_known([node], _KNOWN):
        return False
    return needless.give_up(result, source)
