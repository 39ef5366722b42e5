"""Which nodes need 7-bit weights on a processor that adds pairs of 8-bit products in 16 bits.

Each node is given what it is given on two samples, at some rows or places, and its product is computed in both ways by
:mod:`optim_plugins.ort.quantize.saturation`. Those that lose more by saturation than by a bit of their weights get 7.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import onnx_ir as ir

from optim import Context, Model
from optim.arrays import Array
from optim.onnx import read_constant
from optim_plugins.ort.graph.products import Product
from optim_plugins.ort.measure.calibrate import groups_that_fit
from optim_plugins.ort.measure.captured_values import capture
from optim_plugins.ort.measure.channel_readers import values_named
from optim_plugins.ort.quantize.integer_weights import Floats
from optim_plugins.ort.quantize.saturation import Geometry, narrower_is_closer, windows

_SAMPLES = 2
_ROWS = 64
"""Of each sample: enough for sums of a thousand products; twice as many changed no decision on the models tried."""


@dataclass(frozen=True)
class JudgedProduct:
    """A node that multiplies 8-bit integers.

    Attributes:
        name: what ``keep`` calls it.
        given: name of what it multiplies, in the float graph.
        parts: of what that is on a sample, pairs of rows [R, K] and weights [K, N], for each group of a convolution.
        factor: divides what it is given, [K], where its weights take that over.
        integers: scale and zero point of what it is given; taken from the sample where None.
    """

    name: str
    given: str
    parts: Callable[[Floats], Iterator[tuple[Floats, Floats]]]
    factor: Floats | None = None
    integers: tuple[float, int] | None = None


def judged_product(
    product: Product, given: str, factor: Floats | None, integers: tuple[float, int] | None = None
) -> JudgedProduct:
    """A matrix product."""
    tensor = product.weight.const_value
    assert tensor is not None

    def parts(values: Floats) -> Iterator[tuple[Floats, Floats]]:
        array: Floats = tensor.numpy()
        weight = array.T if product.transposed else array
        rows = values.reshape(-1, weight.shape[0])
        chosen = rows[np.unique(np.linspace(0, len(rows) - 1, _ROWS).astype(int))] if len(rows) else rows
        yield chosen, weight if factor is None else weight * factor[:, None]

    return JudgedProduct(product.name, given, parts, factor, integers)


def judged_convolution(conv: ir.Node, name: str, integers: tuple[float, int], seed: int) -> JudgedProduct:
    """A Conv of constant weights, [M, C / groups, ...]."""
    weight, groups = read_constant(conv.inputs[1]), conv.attributes.get_int("group", 1)
    geometry = Geometry.of(conv, weight.shape[2:])

    def parts(values: Floats) -> Iterator[tuple[Floats, Floats]]:
        each = weight.shape[1]
        if each == 1 and len(weight) == groups:  # the kernels of depthwise convolutions add in 32 bits
            return
        found = windows(values, geometry, _ROWS, seed)
        for group, part in enumerate(np.split(weight, groups)):
            columns = np.moveaxis(part, 1, -1).reshape(len(part), -1)
            rows = found[:, :, group * each : (group + 1) * each].reshape(len(found), columns.shape[1])
            yield rows, columns.T

    given = conv.inputs[0]
    return JudgedProduct(name, (given.name if given is not None else "") or "", parts, integers=integers)


def narrow_nodes(
    graph: Callable[[], ir.Model], nodes: Sequence[JudgedProduct], model: Model, context: Context, *, everywhere: bool
) -> frozenset[str]:
    """Names of nodes whose weights get 7 bits: all, or those that are closer so, or cannot be judged.

    What lies in a branch, or was not finite on a sample, cannot.

    Args:
        graph: makes the float graph that the nodes are in, anew each time.
        nodes: to judge.
        model: tells which inputs there are.
        context: gives the samples.
        everywhere: all, whatever the samples show.
    """
    narrow = {one.name for one in nodes}
    if everywhere:
        return frozenset(narrow)
    answers: dict[str, bool] = {}
    names = list(dict.fromkeys(one.given for one in nodes))
    for group in groups_that_fit(names, _sizes(graph(), names, model, context)):
        for values in islice(capture(graph(), group, model, context), _SAMPLES):
            for one in nodes:
                array = values.get(one.given)
                if array is not None and array.size and np.isfinite(array).all() and not answers.get(one.name):
                    answers[one.name] = _is_closer(one, array.astype(np.float32, copy=False))
    return frozenset(name for name in narrow if answers.get(name, True))


def _is_closer(one: JudgedProduct, values: Floats) -> bool:
    scaled = values if one.factor is None else values / one.factor
    scale, zero = one.integers or _integers_of(scaled)
    return scale > 0 and any(narrower_is_closer(rows, weight, scale, zero) for rows, weight in one.parts(scaled))


def _integers_of(values: Floats) -> tuple[float, int]:
    """Scale and zero point that DynamicQuantizeLinear takes."""
    low, high = float(values.min(initial=0)), float(values.max(initial=0))
    scale = (high - low) / 255
    return scale, round(-low / scale) if scale > 0 else 0


def _sizes(graph: ir.Model, names: Sequence[str], model: Model, context: Context) -> Mapping[str, int]:
    """Elements of each tensor on the first sample."""
    readers = {}
    for name, value in values_named(graph, names):
        node = ir.node("Size", [value])
        node.outputs[0].name, node.outputs[0].type = f"{name}_optim_size", ir.TensorType(ir.DataType.INT64)
        graph.graph.append(node)
        readers[name] = node.outputs[0].name
    values: Mapping[str, Array] = next(iter(capture(graph, list(readers.values()), model, context)), {})
    return {name: int(values[readers[name]]) if readers.get(name) in values else 1 for name in names}
