"""Makes what products are given easier to round: channels of few huge values are scaled down, their weights up.

Before::

    y = MatMul(a, W)

After, with a factor for each channel, which is exact but for rounding::

    y = MatMul(Mul(a, 1 / f), f * W)            f = max|a| ** strength / max|W| ** (1 - strength)

where ``max|a|`` of a channel is taken to be that of three channels in four at least, see ``_ORDINARY``.

Where only such products read what a normalization gives, ``1 / f`` goes into its scale and its bias, and costs nothing.
``f * W`` is never stored: whoever rounds the weight multiplies on the way. Xiao et al., "SmoothQuant: Accurate and
Efficient Post-Training Quantization for Large Language Models", 2023.

What attention gives is left as it is: averages of values over positions have few outliers. On a trained encoder the
drift is the same without these factors, and a multiplication for each layer is saved.

One strength serves all inputs that are rounded to as many bits. Finding one for each, by the error of its own products,
was tried: the outputs of a trained encoder came out further off.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from optim import Context, Model
from optim.onnx import UniqueNames, add_constant, only_reader, read_constant
from optim_plugins.ort.graph.products import Product
from optim_plugins.ort.measure.captured_values import capture
from optim_plugins.ort.measure.channel_readers import add_channel_reader, values_named
from optim_plugins.ort.quantize.integer_weights import Floats

_LEAST = 1e-5
_ORDINARY = 0.75
"""Share of the channels that count as large as the largest of them.

Few samples show little of a quiet channel: scaled up by what they showed, it is the next sample's outlier. A MiniLM
with ranges from each input drifted by 0.063 on the four samples that it was smoothed by, and by 0.097 on a fifth; with
this share by 0.063 on all, with 0.9 by 0.067.
"""

FINER_STRENGTH = 0.4
"""The most for activations of 16 bits: what is left there is the error of the weights, which factors make worse.

All products of a MiniLM with 16 bits drifted by 0.032 without factors, 0.023 with 0.4, 0.034 with 0.6, 0.047 with 0.8;
with 8 bits by 0.16, 0.34, 0.10 and 0.065 (three samples that nothing was fitted to).
"""

_NORMALIZATIONS: dict[str, tuple[int, ...]] = {
    "LayerNormalization": (1, 2),
    "SimplifiedLayerNormalization": (1,),
    "RMSNormalization": (1,),
    "SkipLayerNormalization": (2, 3),
    "SkipSimplifiedLayerNormalization": (2,),
    "Mul": (1,),
}
"""Inputs that scale or shift each channel of the first output."""

_ATTENTION = ("Attention", "GroupQueryAttention", "MultiHeadAttention", "QAttention")

Factors = Mapping[str, Floats]
"""By name of a product's input: f, float32 [K]."""


def find_factors(
    model: Model,
    graph: ir.Model,
    products: Sequence[Product],
    strength: float,
    context: Context,
    finer: Collection[str] = (),
) -> Factors:
    """Factors for what products are given, from what that was on the samples.

    Args:
        model: tells which inputs there are.
        graph: the float graph that the products are in; it is measured in, and its outputs changed.
        products: those that will be rounded.
        strength: 0 leaves everything to the weights, 1 to the activations.
        context: gives the samples.
        finer: names of products whose activations have 16 bits: what only these read is smoothed by
            :data:`FINER_STRENGTH` at most.

    Returns:
        Nothing for an input that attention gives, that is not in the main graph, that no sample reached or that was
        not finite.
    """
    readers: dict[str, list[Product]] = {}
    for product in products:
        producer = product.a.producer()
        if producer is None or producer.op_type not in _ATTENTION:
            readers.setdefault(product.a.name or "", []).append(product)
    weights = {name: np.max([_largest_of_rows(one) for one in group], axis=0) for name, group in readers.items()}
    largest = _largest_of_channels(model, graph, {name: len(rows) for name, rows in weights.items()}, context)
    factors = {}
    for name, channels in largest.items():
        if not np.isfinite(channels).all():
            continue
        rows = np.maximum(weights[name], _LEAST)
        seen = np.maximum(channels, max(_LEAST, float(np.quantile(channels, _ORDINARY))))
        all_finer = all(product.name in finer for product in readers[name])
        of_it = min(strength, FINER_STRENGTH) if all_finer else strength
        factor = seen**of_it / rows ** (1 - of_it)
        if np.isfinite(factor).all():
            factors[name] = (factor / np.exp(np.log(factor).mean())).astype(np.float32)
    return factors


def add_smoothed(graph: ir.Model, factors: Factors) -> dict[str, ir.Value]:
    """Add the scaled tensors, which nothing reads yet, by name of the tensor they are made of."""
    found = {}
    names = UniqueNames(graph)  # what was smoothed once may be smoothed again
    for name, value in values_named(graph, factors):
        factor = factors[name]
        inverse = add_constant(graph.graph, names.take(f"{name}_smoothing"), np.reciprocal(factor))
        node = ir.node("Mul", [value, inverse], name=f"{name}_smooth")
        output = node.outputs[0]
        output.name, output.type, output.shape = names.take(f"{name}_smoothed"), value.type, value.shape
        producer = value.producer()
        if producer is not None:
            graph.graph.insert_after(producer, node)
        else:
            graph.graph.insert_before(graph.graph[0], node)
        found[name] = output
    return found


def connect_smoothed(products: Sequence[Product], smoothed: Mapping[str, ir.Value]) -> None:
    """Let products read the scaled tensors; whoever rounds their weights must multiply those with the factors."""
    for product in products:
        value = smoothed.get(product.a.name or "")
        if value is not None:
            product.node.replace_input_with(0, value)


def fold_smoothing(graph: ir.Model, smoothed: Mapping[str, ir.Value]) -> int:
    """Scale where a normalization scales anyway; how many multiplications that saves."""
    names = UniqueNames(graph)
    return sum(_fold(value, names) for value in smoothed.values())


def can_absorb(value: ir.Value, readers: Sequence[ir.Node]) -> bool:
    """Whether a normalization gives a value that only these read, as their first input, and can scale its channels."""
    producer = value.producer()
    if producer is None or value is not producer.outputs[0] or value.is_graph_output():
        return False
    if {(use.node, use.idx) for use in value.uses()} != {(reader, 0) for reader in readers}:
        return False
    return _scales_of(producer) is not None


def _largest_of_rows(product: Product) -> NDArray[np.float32]:
    """The largest weight of each input channel, [K]."""
    tensor = product.weight.const_value
    assert tensor is not None
    array = tensor.numpy()
    columns = array if product.transposed else array.T
    largest = np.zeros(columns.shape[1], np.float32)
    step = max(1, (1 << 20) // columns.shape[1])
    for start in range(0, len(columns), step):
        np.maximum(largest, np.abs(columns[start : start + step]).max(axis=0), out=largest)
    return largest


def _largest_of_channels(
    model: Model, graph: ir.Model, channels: Mapping[str, int], context: Context
) -> dict[str, NDArray[np.float32]]:
    """The largest magnitude of each channel, [K], by name of the tensor."""
    known = context.known("largest of channels")
    read = values_named(graph, [name for name in channels if name not in known])
    names = {name: add_channel_reader(graph, value, "ReduceMax", channels[name]) for name, value in read}
    found: dict[str, NDArray[np.float32]] = {}
    for values in capture(graph, list(names.values()), model, context) if names else ():
        for name, output in names.items():
            array = values[output].astype(np.float32)
            found[name] = np.maximum(found[name], array) if name in found else array
    known |= found
    return {name: known[name] for name in channels if name in known}


def _fold(value: ir.Value, names: UniqueNames) -> int:
    node = value.producer()
    assert node is not None
    source = node.inputs[0]
    inverse = read_constant(node.inputs[1])
    normalization = source.producer() if source is not None else None
    if source is None or normalization is None or source is not normalization.outputs[0]:
        return 0
    arrays = _scales_of(normalization)
    if only_reader(source) is not node or arrays is None or any(a.shape != inverse.shape for a in arrays.values()):
        return 0
    graph = node.graph
    assert isinstance(graph, ir.Graph)
    for place, array in arrays.items():
        new = add_constant(graph, names.take(f"{value.name}_{place}"), (array * inverse).astype(np.float32))
        normalization.replace_input_with(place, new)
    ir.convenience.replace_all_uses_with(value, source)
    graph.remove(node, safe=True)
    return 1


def _scales_of(normalization: ir.Node) -> dict[int, Floats] | None:
    """What scales and shifts its channels, by place among its inputs; None where that is not constant."""
    places = _NORMALIZATIONS.get(normalization.op_type, ())
    given = dict(enumerate(normalization.inputs))
    arrays = {place: read_constant(given[place]) for place in places if given.get(place) is not None}
    known = places and places[0] in arrays and all(array is not None and array.ndim == 1 for array in arrays.values())
    return arrays if known else None
