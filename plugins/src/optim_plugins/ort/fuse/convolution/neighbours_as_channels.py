"""Convolutions with few output channels compute several neighbouring outputs as channels of one.

The kernels of CPUs compute 8 or 16 output channels at a time, and are at their best with four times as many. A
convolution with fewer leaves lanes empty: where its kernel is wide as well, the net may spend most of its time there.

Before, with M output channels, a stride of s along the last axis, and L numbers there in the output::

    y = Relu(Conv(x, W, b))                             W [M, C, h, w]

After, r neighbouring outputs at a time (what divides L)::

    c = Relu(Conv(x, V, b r times))                     V [r M, C, h, w + (r - 1) s], stride r s along the last axis
    y = c as [N, r, M, H, L / r], the second axis behind the last, as [N, M, H, L]

``V[p M + m, ..., p s + k] = W[m, ..., k]``, and 0 elsewhere: filter p is the old one moved to the p-th of r outputs.
Exact but for the order of sums; infinity beside a zero of V becomes NaN r - 1 outputs further than before.

The r with the least work is taken, by a rule fitted to 12 shapes on one thread of a processor with AVX512
(:func:`_cost`): a kernel of 3 by 39 from 8 to 8 channels took 0.30 of its time, 7 by 7 from 16 to 8 0.51, 5 by 5 from
8 to 8 0.65. Several outputs at once, each by a filter of its own, is the polyphase form of filter banks (P. P.
Vaidyanathan, Multirate Systems and Filter Banks, 1993, chapter 4).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from optim.onnx import UniqueNames, add_constant, only_reader, read_constant
from optim_plugins.ort.fuse.convolution.steps_behind import KNOWN_CONVOLUTIONS
from optim_plugins.ort.graph.known_attributes import are_known
from optim_plugins.ort.graph.node_writer import take_over

_KNOWN = {"LeakyRelu": ("alpha",), "HardSigmoid": ("alpha", "beta"), "Clip": ("min", "max")}
_ELEMENTWISE = frozenset({"Relu", "LeakyRelu", "Sigmoid", "Tanh", "HardSigmoid", "Clip"})
"""What onnxruntime takes into the convolution before it: it stays there."""

_MOST_NEIGHBOURS = 32
_LEAST_LENGTH = 8
"""Of the wide convolution's output: kernels compute six places at a time, and edges one by one."""

_ALIGNED = 4
"""Where there are many input channels, and no multiple of this, onnxruntime takes other kernels, which have no lanes:
33 channels took twice as long."""

_BY_BLOCKS = (1.0, 0.7, 0.62, 0.53)
"""Time of a multiplication where a kernel has one to four blocks of output channels, to that with one."""

_COPIED = 30.0
"""Multiplications of a lane that take as long as moving one number of the result."""

_WORTH = 0.8
"""Of its work: a convolution that keeps more stays. Both kinds of error of the rule were below 0.15."""

_STEP = 0.85
"""Of the work with fewer neighbours: more of them must save that much, since edges take longer."""

_LEAST_SAVED = 1e6
"""Multiplications of a lane, some 50 microseconds: three more nodes take about ten."""


@dataclass(frozen=True, slots=True)
class _Shape:
    """A convolution along its last axis.

    Attributes:
        weight: [M, C, h, w].
        pads: before and behind each axis, as ONNX has them: all that come before first.
        stride: of the last axis.
        width: numbers of the input there.
        length: numbers of the output there.
        rows: numbers of the output along the axis before it; None where it is not fixed.
    """

    weight: NDArray[np.float32]
    pads: tuple[int, ...]
    stride: int
    width: int
    length: int
    rows: int | None

    @property
    def channels(self) -> int:
        """Of the output."""
        return len(self.weight)


def take_neighbours(graph: ir.Model, lanes: int) -> int:
    """Rewrite in place; how many.

    Args:
        graph: with the shapes that are known.
        lanes: output channels that a kernel computes at a time.
    """
    names = UniqueNames(graph)
    return sum(_rewrite(node, lanes, names) for node in list(graph.graph.all_nodes()) if node.op_type == "Conv")


def _rewrite(conv: ir.Node, lanes: int, names: UniqueNames) -> bool:
    shape = _shape(conv)
    count = _neighbours(shape, lanes) if shape is not None else 1
    bias = conv.inputs[2] if len(conv.inputs) > 2 else None
    numbers = read_constant(bias)
    if shape is None or count == 1 or (bias is not None and numbers is None):
        return False
    if not are_known([conv], KNOWN_CONVOLUTIONS):
        return False
    assert isinstance(conv.graph, ir.Graph)
    source, name = conv.inputs[0], conv.outputs[0].name or "conv"
    wide = _wide(shape, count)
    operands = [source, add_constant(conv.graph, names.take(f"{name}_weight"), wide)]
    if numbers is not None:
        operands.append(add_constant(conv.graph, names.take(f"{name}_bias"), np.tile(numbers, count)))
    attributes = conv.attributes.copy()
    attributes.pop("auto_pad", None)
    strides = [*conv.attributes.get_ints("strides", (1, 1))][:-1]
    for key, value in {
        "kernel_shape": wide.shape[2:],
        "pads": _pads_of(shape),
        "strides": (*strides, shape.stride * count),
    }.items():
        attributes[key] = ir.AttrInt64s(key, list(value))
    new = [ir.node("Conv", operands, attributes, name=conv.name)]
    replaced = [conv]
    while (reader := only_reader(replaced[-1].outputs[0])) is not None and _is_elementwise(reader, replaced[-1]):
        operands = [new[-1].outputs[0], *reader.inputs[1:]]
        new.append(ir.node(reader.op_type, operands, reader.attributes.copy(), name=reader.name))
        replaced.append(reader)
    last = replaced[-1]
    new += _apart(new[-1].outputs[0], shape, count, conv.graph, names, last.outputs[0].name or name)
    for node in new[:-1]:
        node.outputs[0].name = names.take(f"{name}_neighbours")
        node.outputs[0].type = conv.outputs[0].type
    new[-1].outputs[0].name = names.take(f"{last.outputs[0].name}_apart")
    for node in new:
        node.metadata_props.update(conv.metadata_props)
    conv.graph.insert_before(last, new)
    take_over(last.outputs[0], new[-1].outputs[0])
    for node in reversed(replaced):
        conv.graph.remove(node, safe=True)
    return True


def _apart(value: ir.Value, shape: _Shape, count: int, graph: ir.Graph, names: UniqueNames, name: str) -> list[ir.Node]:
    """From ``[N, r M, H, L / r]`` to ``[N, M, H, L]``."""
    rows = -1 if shape.rows is None else shape.rows
    sizes = {"split": [0, count, shape.channels, rows, shape.length // count]}
    sizes |= {"joined": [0, shape.channels, rows, shape.length]}
    constants = {
        part: add_constant(graph, names.take(f"{name}_{part}"), np.array(numbers, np.int64))
        for part, numbers in sizes.items()
    }
    split = ir.node("Reshape", [value, constants["split"]], name=names.take(f"{name}_split"))
    moved = ir.node("Transpose", [split.outputs[0]], {"perm": [0, 2, 3, 4, 1]}, name=names.take(f"{name}_moved"))
    joined = ir.node("Reshape", [moved.outputs[0], constants["joined"]], name=names.take(f"{name}_joined"))
    return [split, moved, joined]


def _is_elementwise(node: ir.Node, before: ir.Node) -> bool:
    is_known = node.op_type in _ELEMENTWISE and node.domain in ("", "ai.onnx") and node.graph is before.graph
    bounds = [value for value in node.inputs[1:] if value is not None]
    fits = is_known and node.inputs[0] is before.outputs[0] and all(read_constant(one) is not None for one in bounds)
    return fits and are_known([node], _KNOWN)


def _shape(conv: ir.Node) -> _Shape | None:
    """What a Conv over images of known width computes; None for others, grouped ones among them."""
    source, result = (conv.inputs[0], conv.outputs[0]) if conv.inputs else (None, None)
    weight = read_constant(conv.inputs[1]) if source is not None else None
    if source is None or result is None or weight is None or weight.dtype != "float32" or weight.ndim != 4:
        return None
    dilations = conv.attributes.get_ints("dilations", (1, 1))
    if conv.domain not in ("", "ai.onnx") or conv.attributes.get_int("group", 1) != 1 or dilations[-1] != 1:
        return None
    pads = _pads(conv)
    if pads is None or source.shape is None or len(source.shape) != 4 or not isinstance(source.shape[3], int):
        return None
    width, stride = source.shape[3], conv.attributes.get_ints("strides", (1, 1))[-1]
    length = (width + pads[1] + pads[3] - weight.shape[3]) // stride + 1
    rows = result.shape[2] if result.shape is not None and len(result.shape) == 4 else None
    return _Shape(weight, pads, stride, width, length, rows if isinstance(rows, int) else None)


def _pads(conv: ir.Node) -> tuple[int, ...] | None:
    """Before and behind both axes; None where they depend on the size."""
    auto = conv.attributes.get_string("auto_pad", "NOTSET")
    if auto not in ("NOTSET", "VALID", ""):
        return None
    return tuple(conv.attributes.get_ints("pads", (0, 0, 0, 0))) if auto != "VALID" else (0, 0, 0, 0)


def _pads_of(shape: _Shape) -> tuple[int, ...]:
    """Those of the wide convolution: behind the last axis no more than its last output needs."""
    top, left, bottom, _ = shape.pads
    needed = (shape.length - 1) * shape.stride + shape.weight.shape[3] - shape.width - left
    return top, left, bottom, max(needed, 0)


def _wide(shape: _Shape, count: int) -> NDArray[np.float32]:
    """The weight with the old filters side by side, each moved to its output: [r M, C, h, w + (r - 1) s]."""
    channels, *rest, width = shape.weight.shape
    wide: NDArray[Any] = np.zeros((count, channels, *rest, width + (count - 1) * shape.stride), np.float32)
    for place in range(count):
        wide[place, ..., place * shape.stride : place * shape.stride + width] = shape.weight
    return wide.reshape(count * channels, *wide.shape[2:])


def _neighbours(shape: _Shape, lanes: int) -> int:
    """How many outputs at a time: 1 where nothing is gained."""
    inputs = shape.weight.shape[1]
    if inputs >= lanes and inputs % _ALIGNED:
        return 1
    best, least = 1, _cost(shape, 1, lanes)
    alone = least
    for count in range(2, _MOST_NEIGHBOURS + 1):
        fits = shape.length % count == 0 and shape.length >= _LEAST_LENGTH * count
        if fits and (cost := _cost(shape, count, lanes)) < _STEP * least:
            best, least = count, cost
    outputs = shape.length * (shape.rows or shape.length)
    return best if least < _WORTH * alone and (alone - least) * outputs > _LEAST_SAVED else 1


def _cost(shape: _Shape, count: int, lanes: int) -> float:
    """Work for a place of the output, in multiplications of a lane."""
    channels, inputs, height, width = shape.weight.shape
    blocks = -(-channels * count // lanes)
    full, rest = divmod(blocks, len(_BY_BLOCKS))
    weighted = full * len(_BY_BLOCKS) * _BY_BLOCKS[-1] + (rest * _BY_BLOCKS[rest - 1] if rest else 0.0)
    kernel = inputs * height * (width + (count - 1) * shape.stride)
    return float(kernel * lanes * weighted / count + (_COPIED * channels if count > 1 else 0.0))
