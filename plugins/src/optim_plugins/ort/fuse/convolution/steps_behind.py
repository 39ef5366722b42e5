"""What scales and shifts the result of a convolution goes into its weights and its bias.

Before, as many such steps as there are, BatchNormalization among them::

    y = factor * Conv(x, W, b) + shift                  factor, shift: one number, or one for each channel

After::

    y = Conv(x, factor * W, factor * b + shift)

The same for ConvTranspose. Exact but for rounding. onnxruntime does it for a BatchNormalization behind a Conv and for
constants of a whole [1, C, 1, 1] alone; a scale of one number, as in nets with learnable affine blocks, stays a pass
over the tensor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from optim.onnx import UniqueNames, add_constant, only_reader, read_constant
from optim_plugins.ort.fuse.convolution.affine_steps import Affine, Numbers, affine_step
from optim_plugins.ort.graph.known_attributes import are_known
from optim_plugins.ort.graph.node_writer import take_over

_STANDARD = ("", "ai.onnx")
_PLACES = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
KNOWN_CONVOLUTIONS = {"Conv": _PLACES, "ConvTranspose": (*_PLACES, "output_padding", "output_shape")}
"""Attributes that say which numbers are multiplied, and nothing of what becomes of the sums."""


@dataclass(frozen=True, slots=True)
class Folded:
    """How many nodes went: normalizations, which onnxruntime folds itself, and what it does not."""

    normalizations: int = 0
    steps: int = 0

    def __add__(self, other: Folded) -> Folded:
        """Both."""
        return Folded(self.normalizations + other.normalizations, self.steps + other.steps)


def fold_steps_behind(graph: ir.Model) -> Folded:
    """Fold in place."""
    names = UniqueNames(graph)
    return sum((_fold(node, names) for node in list(graph.graph.all_nodes()) if is_convolution(node)), Folded())


def is_convolution(node: ir.Node) -> bool:
    """Whether it is a standard Conv or ConvTranspose."""
    return node.op_type in ("Conv", "ConvTranspose") and node.domain in _STANDARD


def fit_float32(*arrays: NDArray[Any]) -> bool:
    """Whether constants are finite as float32."""
    with np.errstate(over="ignore"):
        return all(bool(np.isfinite(array.astype(np.float32)).all()) for array in arrays)


def put_constants(conv: ir.Node, weight: NDArray[Any], bias: NDArray[Any], names: UniqueNames) -> bool:
    """Give a convolution a new weight and a new bias, as float32; False where they do not fit into that."""
    if not fit_float32(weight, bias):
        return False
    arrays = {"weight": np.ascontiguousarray(weight, np.float32), "bias": np.ascontiguousarray(bias, np.float32)}
    assert isinstance(conv.graph, ir.Graph)
    if len(conv.inputs) < 3:
        conv.resize_inputs(3)
    for place, (part, array) in enumerate(arrays.items(), 1):
        name = names.take(f"{conv.outputs[0].name or 'conv'}_{part}")
        conv.replace_input_with(place, add_constant(conv.graph, name, array))
    return True


def _fold(conv: ir.Node, names: UniqueNames) -> Folded:
    weight = read_constant(conv.inputs[1])
    given = conv.inputs[2] if len(conv.inputs) > 2 else None
    bias = read_constant(given) if given is not None else np.zeros((), np.float32)
    if weight is None or bias is None or weight.dtype != "float32" or weight.ndim < 3:
        return Folded()
    found, steps = _chain(conv, weight.ndim)
    groups = conv.attributes.get_int("group", 1)
    channels = weight.shape[0] if conv.op_type == "Conv" else weight.shape[1] * groups
    if found is None or any(numbers.size not in (1, channels) for numbers in (found.factor, found.shift)):
        return Folded()
    scaled = _scaled(conv, weight, np.broadcast_to(found.factor, channels), groups)
    shifted = np.broadcast_to(found.factor * bias + found.shift, channels)
    if not are_known([conv], KNOWN_CONVOLUTIONS) or not put_constants(conv, scaled, shifted, names):
        return Folded()
    take_over(steps[-1].outputs[0], conv.outputs[0])
    for node in reversed(steps):
        assert node.graph is not None
        node.graph.remove(node, safe=True)
    known = sum(node.op_type == "BatchNormalization" for node in steps) if conv.op_type == "Conv" else 0
    return Folded(known, len(steps) - known)


def _chain(conv: ir.Node, axes: int) -> tuple[Affine | None, list[ir.Node]]:
    """All steps behind a convolution as one, and their nodes in order."""
    found: Affine | None = None
    steps: list[ir.Node] = []
    result = conv.outputs[0]
    while (reader := only_reader(result)) is not None:
        step = affine_step(reader, axes)
        if step is None or step.source is not result:
            break
        found, result = step if found is None else found.then(step), reader.outputs[0]
        steps.append(reader)
    return found, steps


def _scaled(conv: ir.Node, weight: NDArray[np.float32], factor: Numbers, groups: int) -> Numbers:
    """The weight with each output channel times its factor, [channels]."""
    rest = (1,) * (weight.ndim - 2)
    if conv.op_type == "Conv":
        return weight * factor.reshape(-1, 1, *rest)
    parts = weight.reshape(groups, -1, *weight.shape[1:])
    scaled: Numbers = (parts * factor.reshape(groups, 1, -1, *rest)).reshape(weight.shape)
    return scaled
