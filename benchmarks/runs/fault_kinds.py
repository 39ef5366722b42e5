"""Faults that are put into a model, one at a time: five kinds of them, for ``faults.py``."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper


@dataclass(frozen=True)
class Place:
    """Where the model lies that a fault is put into.

    Attributes:
        folder: of its weights.
        data: feeds, an .npz.
        scratch: a file that may be written.
    """

    folder: Path
    data: Path
    scratch: Path


@dataclass(frozen=True)
class Fault:
    """A changed model and the nodes that the change is in."""

    kind: str
    nodes: tuple[str, ...]


def weight_noise(model: onnx.ModelProto, where: Place, pick: random.Random) -> Fault | None:
    """Noise of half its own spread on one weight, in whatever type it is stored."""
    weights = {tensor.name: tensor for tensor in model.graph.initializer}
    found = [
        (node, name)
        for node in model.graph.node
        if node.op_type in ("MatMul", "Gemm", "Conv", "MatMulInteger", "DequantizeLinear", "FusedMatMul", "FusedConv")
        for name in node.input
        if name in weights and len(weights[name].dims) >= 2
    ]
    if not found:
        return None
    node, name = pick.choice(found)
    array = _array(weights[name], where.folder)
    noise = np.random.default_rng(pick.randrange(1 << 30)).standard_normal(array.shape) * 0.5 * array.std()
    changed = np.clip(array + noise, *_range(array.dtype)).astype(array.dtype)
    weights[name].CopyFrom(numpy_helper.from_array(changed, name))
    return Fault("weight noise", _readers(model, node))


def wrong_axis(model: onnx.ModelProto, where: Place, pick: random.Random) -> Fault | None:
    """An axis one too early, where the shape stays as it is."""
    found = [node for node in model.graph.node if node.op_type in ("Softmax", "LayerNormalization")]
    if not found:
        return None
    node = pick.choice(found)
    for attribute in [one for one in node.attribute if one.name == "axis"]:
        node.attribute.remove(attribute)
    if node.op_type == "LayerNormalization":  # over the rows: its scale has another shape there
        node.op_type = "Softmax"
        del node.input[1:]
        for attribute in list(node.attribute):
            node.attribute.remove(attribute)
    node.attribute.append(onnx.helper.make_attribute("axis", -2))
    return Fault("wrong axis", (node.name,))


def wrong_epsilon(model: onnx.ModelProto, where: Place, pick: random.Random) -> Fault | None:
    """A normalization whose epsilon is as large as what it normalizes."""
    found = [node for node in model.graph.node if any(one.name == "epsilon" for one in node.attribute)]
    if not found:
        return None
    node = pick.choice(found)
    next(one for one in node.attribute if one.name == "epsilon").f = 10.0
    return Fault("wrong epsilon", (node.name,))


def overflow(model: onnx.ModelProto, where: Place, pick: random.Random) -> Fault | None:
    """A value that goes through float16 scaled so that its large elements overflow."""
    found = [n for n in model.graph.node if n.op_type in ("MatMul", "Gemm", "Conv", "Add", "FusedMatMul", "FusedConv")]
    floats = {value.name for value in onnx.shape_inference.infer_shapes(model).graph.value_info}
    node = pick.choice([n for n in found if n.output[0] in floats] or found)
    value, names = node.output[0], [f"{node.name}_half_{place}" for place in range(4)]
    inner = [f"{value}_before", f"{value}_scaled", f"{value}_half", f"{value}_back"]
    node.output[0] = inner[0]
    scale = [numpy_helper.from_array(np.float32(number), f"{value}_by_{number:g}") for number in (1e5, 1e-5)]
    model.graph.initializer.extend(scale)
    make = onnx.helper.make_node
    place = list(model.graph.node).index(node)
    for new in (
        make("Mul", [inner[3], scale[1].name], [value], names[3]),
        make("Cast", [inner[2]], [inner[3]], names[2], to=1),
        make("Cast", [inner[1]], [inner[2]], names[1], to=10),
        make("Mul", [inner[0], scale[0].name], [inner[1]], names[0]),
    ):
        model.graph.node.insert(place + 1, new)
    return Fault("overflow in float16", tuple(names))


def bad_scale(model: onnx.ModelProto, where: Place, pick: random.Random) -> Fault | None:
    """A quantization scale ten times too small; in a model without one, a pair with such a scale is put in.

    A fixed scale would not do: for some values it is the right one.
    """
    weights = {tensor.name: tensor for tensor in model.graph.initializer}
    found = [
        node
        for node in model.graph.node
        if node.op_type == "DequantizeLinear" and len(node.input) > 1 and node.input[1] in weights
    ] or [node for node in model.graph.node if node.op_type == "Mul" and node.input[1].endswith("_scale")]
    scaled = [(node, name) for node in found for name in node.input if name in weights and name.endswith("_scale")]
    if scaled:
        node, name = pick.choice(scaled)
        array = _array(weights[name], where.folder)
        weights[name].CopyFrom(numpy_helper.from_array((array / 10).astype(array.dtype), name))
        return Fault("bad quantization scale", _readers(model, node))
    node = pick.choice([node for node in model.graph.node if node.op_type in ("MatMul", "Gemm", "Conv", "FusedConv")])
    value, names = node.output[0], (f"{node.name}_down", f"{node.name}_up")
    scale = np.float32(np.abs(_seen(model, where, value)).max() / 127 / 10)
    node.output[0] = f"{value}_before"
    model.graph.initializer.append(numpy_helper.from_array(scale, f"{value}_scale"))
    model.graph.initializer.append(numpy_helper.from_array(np.int8(0), f"{value}_zero"))
    pair = [f"{value}_scale", f"{value}_zero"]
    place = list(model.graph.node).index(node)
    make = onnx.helper.make_node
    up = make("DequantizeLinear", [f"{value}_integers", *pair], [value], names[1])
    model.graph.node.insert(place + 1, up)
    down = make("QuantizeLinear", [f"{value}_before", *pair], [f"{value}_integers"], names[0])
    model.graph.node.insert(place + 1, down)
    return Fault("bad quantization scale", names)


KINDS: tuple[Callable[[onnx.ModelProto, Place, random.Random], Fault | None], ...] = (
    weight_noise,
    wrong_axis,
    wrong_epsilon,
    overflow,
    bad_scale,
)


def _seen(model: onnx.ModelProto, where: Place, value: str) -> np.ndarray:
    """A value of the model on its feeds."""
    import onnxruntime as ort

    looked_into = onnx.ModelProto.FromString(model.SerializeToString())
    looked_into.graph.output.append(onnx.ValueInfoProto(name=value))
    onnx.save(looked_into, where.scratch)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(str(where.scratch), options, providers=["CPUExecutionProvider"])
    with np.load(where.data) as feeds:
        (found,) = session.run([value], {one.name: feeds[one.name] for one in session.get_inputs()})
    return np.asarray(found)


def _array(tensor: onnx.TensorProto, folder: Path) -> np.ndarray:
    return numpy_helper.to_array(tensor, base_dir=str(folder))


def _range(dtype: np.dtype) -> tuple[float, float]:
    return (-np.inf, np.inf) if dtype.kind == "f" else (np.iinfo(dtype).min, np.iinfo(dtype).max)


def _readers(model: onnx.ModelProto, node: onnx.NodeProto) -> tuple[str, ...]:
    """A node, and what reads it where it only unpacks a weight: a weight has no node of its own."""
    if node.op_type != "DequantizeLinear":
        return (node.name,)
    return (node.name, *(other.name for other in model.graph.node if set(node.output) & set(other.input)))
