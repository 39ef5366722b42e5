"""HardSigmoid and HardSwish, written out by exporters, as operators that onnxruntime has kernels for.

Before, where a and c are one number each, and ``k * high`` is 1::

    y = x * Clip(a * x + c, 0, high) * k            HardSwish: x * Clip(x + 3, 0, 6) / 6, four passes over the tensor
    y = Clip(a * x + c, 0, high) * k                HardSigmoid

After::

    y = x * HardSigmoid(x, alpha=a / high, beta=c / high)
    y = HardSigmoid(x, alpha=a / high, beta=c / high)

onnxruntime takes either into the convolution before it. The operator HardSwish is not written: there is no kernel of
that name, and opset 14 would be needed.
"""

from __future__ import annotations

import math

import onnx_ir as ir

from optim.onnx import UniqueNames, only_reader
from optim_plugins.ort.fuse.convolution.affine_steps import Affine, affine_step
from optim_plugins.ort.graph.float_values import is_float32
from optim_plugins.ort.graph.known_attributes import are_known
from optim_plugins.ort.graph.known_values import scalar
from optim_plugins.ort.graph.node_writer import take_over

_STANDARD = ("", "ai.onnx")
_KNOWN = {"Clip": ("min", "max")}
_SAME = 1e-6
"""How far ``k * high`` may be from 1: 1/6 in float32 times 6 is 1 within 1e-7."""


def fuse_hard_sigmoid(graph: ir.Model) -> int:
    """Rewrite in place; how many. What is not read any more stays to be dropped."""
    names = UniqueNames(graph)
    clips = [node for node in graph.graph.all_nodes() if node.op_type == "Clip" and node.domain in _STANDARD]
    return sum(_fuse(clip, names) for clip in clips)


def _fuse(clip: ir.Node, names: UniqueNames) -> bool:
    low, high = _bounds(clip)
    step = _argument(clip) if low == 0 and high is not None and 0 < high < math.inf else None
    if step is None or high is None or not step.shift.any():  # without a shift it is a bounded ReLU
        return False
    clipped = clip.outputs[0]
    axes = len(step.source.shape or ())
    product, last = None, only_reader(clipped)
    if last is not None and last.op_type == "Mul" and not _scales(last, clipped, high, axes):
        product, last = last, only_reader(last.outputs[0])
    if last is None or not _scales(last, clipped if product is None else product.outputs[0], high, axes):
        return False
    if not are_known((clip, last, *([product] if product is not None else [])), _KNOWN):
        return False
    numbers = {"alpha": float(step.factor) / high, "beta": float(step.shift) / high}
    name = names.take(f"{clip.name or clipped.name}_hard_sigmoid")
    new = [ir.node("HardSigmoid", [step.source], numbers, name=name)]
    made = new[0].outputs[0]
    made.name, made.type, made.shape = names.take(f"{name}_output"), step.source.type, step.source.shape
    if product is not None:
        other = next(value for value in product.inputs if value is not clipped)
        new.append(ir.node("Mul", [other, made], name=product.name))
        new[1].outputs[0].name = names.take(f"{last.outputs[0].name}_hard")
    assert last.graph is not None
    last.graph.insert_before(last, new)
    for node in new:
        node.metadata_props.update(last.metadata_props)
    take_over(last.outputs[0], new[-1].outputs[0])
    last.graph.remove(last, safe=True)
    return True


def _argument(clip: ir.Node) -> Affine | None:
    """What a Clip bounds, as a step of one number each for factor and shift, from a tensor of the same shape."""
    value = clip.inputs[0]
    if value is None or value.shape is None or only_reader(value) is not clip:
        return None
    axes = len(value.shape)
    step = affine_step(value.producer(), axes)
    while step is not None and only_reader(step.source) is not None:
        before = affine_step(step.source.producer(), axes)
        if before is None:
            break
        step = before.then(step)
    if step is None or step.factor.size != 1 or step.shift.size != 1 or not is_float32(step.source):
        return None
    return step if step.source.shape is not None and len(step.source.shape) == axes else None


def _bounds(clip: ir.Node) -> tuple[float | None, float | None]:
    """The least and the largest value, where they are known."""
    if len(clip.inputs) < 2:
        return clip.attributes.get_float("min", -math.inf), clip.attributes.get_float("max", math.inf)
    given = [*clip.inputs[1:], None]
    return scalar(given[0]), scalar(given[1])


def _scales(node: ir.Node, value: ir.Value, high: float, axes: int) -> bool:
    """Whether a node does nothing but bring ``[0, high]`` to ``[0, 1]``."""
    step = affine_step(node, axes)
    if step is None or step.source is not value or step.factor.size != 1 or step.shift.any():
        return False
    return abs(float(step.factor) * high - 1) < _SAME
