"""What scales and shifts the input of convolutions goes into their weights and biases.

Before, where nothing but convolutions reads ``f * x + s``::

    y = Conv(f * x + s, W, b)                       f, s: one number, or one for each channel

After, where nothing is padded, or s is 0::

    y = Conv(x, W * f, b + sum(W * s))

After, where a convolution pads with zeros, which are not shifted::

    y = Conv(BatchNormalization(x, 1, s / f), W * f, b)

The BatchNormalization scales nothing; an Add would do the same, but that one stays in the blocked layout that
onnxruntime's convolutions on x86 work in, where an Add of a constant must leave it. Exact but for rounding.

The half of a Gelu that is written out stays: without it onnxruntime makes no Gelu of the rest.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from optim.onnx import UniqueNames, add_constant, only_reader, read_constant
from optim_plugins.ort.fuse.convolution.affine_steps import Affine, Numbers, affine_step
from optim_plugins.ort.fuse.convolution.steps_behind import KNOWN_CONVOLUTIONS, fit_float32, put_constants
from optim_plugins.ort.graph.known_attributes import are_known
from optim_plugins.ort.graph.written_gelu import written_gelus

_PLAIN_NORMALIZATION = 7
"""The opset since which BatchNormalization need not be told that a model runs and does not learn."""


def fold_steps_ahead(graph: ir.Model) -> int:
    """Fold in place; how many nodes went."""
    names, opset = UniqueNames(graph), graph.graph.opset_imports.get("", 1)
    needed = {gelu.last for gelu in written_gelus(graph)}
    read = [node.inputs[0] for node in graph.graph.all_nodes() if node.op_type == "Conv" and node.inputs]
    return sum(_fold(value, opset, names, needed) for value in dict.fromkeys(read) if value is not None)


def _fold(result: ir.Value, opset: int, names: UniqueNames, needed: Collection[ir.Node]) -> int:
    last, convolutions = result.producer(), [use.node for use in result.uses()]
    weights = [weight for conv in convolutions if (weight := _weight(conv, result)) is not None]
    if last is None or last in needed or result.is_graph_output() or len(weights) != len(convolutions):
        return 0
    channels = {weight.shape[1] * _groups(conv) for conv, weight in zip(convolutions, weights, strict=True)}
    found, steps = _chain(last, weights[0].ndim, needed)
    if found is None or len(channels) != 1 or not _fits(found, next(iter(channels)), weights):
        return 0
    stays = bool(found.shift.any()) and any(_pads(conv) for conv in convolutions)
    if stays and (len(steps) < 2 or not found.factor.all() or opset < _PLAIN_NORMALIZATION):
        return 0
    taken = [
        _taken_in(conv, weight, found, with_shift=not stays) for conv, weight in zip(convolutions, weights, strict=True)
    ]
    if not all(fit_float32(*constants) for constants in taken) or not are_known(convolutions, KNOWN_CONVOLUTIONS):
        return 0  # all of them, or none
    for conv, (weight, bias) in zip(convolutions, taken, strict=True):
        put_constants(conv, weight, bias, names)
    source = _shifted(found, last, channels.pop(), names) if stays else found.source
    for conv in convolutions:
        conv.replace_input_with(0, source)
    for node in steps:
        assert node.graph is not None
        node.graph.remove(node, safe=True)
    return len(steps) - int(stays)


def _weight(conv: ir.Node, value: ir.Value) -> NDArray[Any] | None:
    """The constant weight of a Conv that reads a value as what it convolves, and not as anything else."""
    if conv.op_type != "Conv" or conv.domain not in ("", "ai.onnx") or conv.graph is not value.graph:
        return None
    if conv.inputs[0] is not value or value in conv.inputs[1:]:
        return None
    weight: NDArray[Any] | None = read_constant(conv.inputs[1])
    bias = conv.inputs[2] if len(conv.inputs) > 2 else None
    is_known = bias is None or read_constant(bias) is not None
    return weight if weight is not None and is_known and weight.dtype == "float32" and weight.ndim > 2 else None


def _groups(conv: ir.Node) -> int:
    return conv.attributes.get_int("group", 1)


def _chain(last: ir.Node, axes: int, needed: Collection[ir.Node]) -> tuple[Affine | None, list[ir.Node]]:
    """All steps that end in a node as one, and their nodes, the last one first."""
    found = affine_step(last, axes)
    steps = [last]
    while found is not None:
        before = found.source.producer()
        if (
            before is None
            or before in needed
            or before.graph is not last.graph
            or only_reader(found.source) is not steps[-1]
        ):
            break
        step = affine_step(before, axes)
        if step is None:
            break
        found = step.then(found)
        steps.append(before)
    return found, steps


def _fits(found: Affine, channels: int, weights: list[NDArray[Any]]) -> bool:
    """Whether what goes in has the axes and channels that convolutions read, so that no step makes it larger."""
    shape = found.source.shape
    if shape is None or any(len(shape) != weight.ndim for weight in weights) or shape[1] != channels:
        return False
    return all(numbers.size in (1, channels) for numbers in (found.factor, found.shift))


def _pads(conv: ir.Node) -> bool:
    auto = conv.attributes.get_string("auto_pad", "NOTSET")
    return auto.startswith("SAME") or any(conv.attributes.get_ints("pads", ()))


def _taken_in(
    conv: ir.Node, weight: NDArray[Any], step: Affine, *, with_shift: bool
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Weight and bias of a convolution that has a step in it."""
    groups = _groups(conv)
    given = read_constant(conv.inputs[2]) if len(conv.inputs) > 2 and conv.inputs[2] is not None else np.zeros(())
    parts = weight.astype(np.float64).reshape(groups, -1, *weight.shape[1:])

    def by_channel(numbers: Numbers) -> Numbers:
        all_channels = np.broadcast_to(numbers, weight.shape[1] * groups)
        return all_channels.reshape(groups, 1, -1, *[1] * (weight.ndim - 2))

    added = (parts * by_channel(step.shift)).reshape(len(weight), -1).sum(axis=1) if with_shift else np.zeros(())
    scaled = (parts * by_channel(step.factor)).reshape(weight.shape)
    return scaled, np.broadcast_to(given + added, len(weight))


def _shifted(step: Affine, last: ir.Node, channels: int, names: UniqueNames) -> ir.Value:
    """``source + shift / factor``, for convolutions that pad."""
    shift = np.broadcast_to(step.shift / step.factor, channels)
    numbers = {"scale": np.ones(channels), "shift": shift, "mean": np.zeros(channels), "variance": np.ones(channels)}
    result = last.outputs[0]
    assert isinstance(last.graph, ir.Graph)
    constants = [
        add_constant(last.graph, names.take(f"{result.name}_{part}"), np.asarray(array, np.float32))
        for part, array in numbers.items()
    ]
    node = ir.node("BatchNormalization", [step.source, *constants], {"epsilon": 0.0})
    node.name, node.outputs[0].name = f"{last.name or result.name}_shifted", names.take(f"{result.name}_shifted")
    node.outputs[0].type, node.outputs[0].shape = result.type, result.shape
    node.metadata_props.update(last.metadata_props)
    last.graph.insert_before(last, node)
    return node.outputs[0]
