"""AWQ: weights of channels that products are given large are scaled up before they are rounded, and err less.

Before::

    y = MatMul(Norm(x; scale), W)

After, the same in floats::

    y = MatMul(Norm(x; scale / f), f * W)           f = rms(channel) ** strength

Where the input is a gate times what another product gives, as before a layer's way down, that product takes it::

    y = MatMul(gate * MatMul(x, U), W)              y = MatMul(gate * MatMul(x, U / f), f * W)

Of a few strengths each input takes the one that its products err least with. Only these take ``1 / f`` for nothing, so
others are left as they are: what a sum reads too, as in encoders that normalize behind it, what an activation gives,
and what attention gives, whose averages have few outliers. Its factors would go into the product that makes values; a
decoder hands these on as its past, which would no longer be the original's. Lin et al., "AWQ: Activation-aware Weight
Quantization for LLM Compression and Acceleration", 2023.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from optim.onnx import only_reader
from optim_plugins.ort.graph.products import Product, find_products
from optim_plugins.ort.quantize.smoothing import add_smoothed, can_absorb, connect_smoothed, fold_smoothing
from optim_plugins.ort.quantize.weights.block_plan import Place, Rounding
from optim_plugins.ort.quantize.weights.block_rounding import to_nearest
from optim_plugins.ort.quantize.weights.block_weights import Floats, blocked
from optim_plugins.ort.quantize.weights.seen_inputs import Inputs

_STRENGTHS = (0.25, 0.5, 0.75)
_WORTH_IT = 0.98
"""Of the error without factors; less is noise of the columns that were looked at."""

_COLUMNS = 256
"""Of each weight, to compare strengths by."""

Group = Sequence[tuple[Product, Rounding]]


def scale_channels(
    graph: ir.Model, work: Sequence[tuple[Place, Rounding]], inputs: Mapping[str, Inputs]
) -> tuple[dict[str, Inputs], int]:
    """Let normalizations, and products behind gates, scale channels down.

    Args:
        graph: changed in place: scales and shifts of normalizations, weights of products.
        work: what will be rounded; products that read the same tensor share a factor.
        inputs: of products, by their names.

    Returns:
        What products are given now, with the factors that their weights take; and how many normalizations and
        products took some.
    """
    readers: dict[ir.Value, list[tuple[Product, Rounding]]] = {}
    for place, rounding in work:
        if isinstance(place, Product):
            readers.setdefault(place.a, []).append((place, rounding))
    given, factors, behind = dict(inputs), {}, 0
    plain = {
        one.last.outputs[0]: one
        for one in find_products(graph, 1)
        if one.vector is None and one.addend is None and one.activation is None
    }
    for value, group in readers.items():
        seen = next((inputs[product.name] for product, _ in group if product.name in inputs), None)
        own = all(len(product.weight.uses()) == 1 for product, _ in group)
        if seen is None or not own:
            continue
        nodes = [product.node for product, _ in group]
        absorbs = can_absorb(value, nodes)
        before = None if absorbs else _product_behind_gate(value, nodes, plain)
        if not absorbs and before is None:
            continue
        factor = _best_factor(group, seen)
        if factor is None:
            continue
        if before is None:
            factors[value.name or ""] = factor
        else:
            _divide_columns(before, factor)
            behind += 1
        scaled = seen.scaled(factor)
        given |= {product.name: scaled for product, _ in group}
    added = add_smoothed(graph, factors)
    connect_smoothed([place for place, _ in work if isinstance(place, Product)], added)
    return given, fold_smoothing(graph, added) + behind


def _product_behind_gate(
    value: ir.Value, readers: Sequence[ir.Node], products: Mapping[ir.Value, Product]
) -> Product | None:
    """The product whose columns times a gate are a value's channels, where nothing else reads either.

    Args:
        value: what is read.
        readers: those that may read it, as their first input.
        products: that add nothing, by what they give.
    """
    gate = value.producer()
    if gate is None or gate.op_type != "Mul" or gate.domain not in ("", "ai.onnx") or value.is_graph_output():
        return None
    if {(use.node, use.idx) for use in value.uses()} != {(reader, 0) for reader in readers}:
        return None
    for operand in gate.inputs:
        product = products.get(operand) if operand is not None else None
        if product is not None and only_reader(product.last.outputs[0]) is gate and len(product.weight.uses()) == 1:
            return product
    return None


def _divide_columns(product: Product, factor: Floats) -> None:
    """Divide what a product gives, channel by channel; its weight is read from where it lies when it is needed."""
    weight, by_column = product.weight, factor[:, None] if product.transposed else factor
    before = weight.const_value
    assert before is not None
    weight.const_value = ir.LazyTensor(
        lambda: ir.tensor(np.asarray(before.numpy() / by_column, np.float32), name=weight.name),
        dtype=before.dtype,
        shape=ir.Shape(before.shape.numpy()),
        name=weight.name,
    )


def _best_factor(group: Group, seen: Inputs) -> Floats | None:
    """The factor of each channel, [K]; None where none is worth it."""
    size = np.sqrt(seen.importance)
    size /= np.exp(np.log(size).mean())
    least, best = _WORTH_IT * _error(group, seen, np.ones_like(size)), None
    for strength in _STRENGTHS:
        factor = np.asarray(size**strength, np.float32)
        if (error := _error(group, seen, factor)) < least:
            least, best = error, factor
    return best


def _error(group: Group, seen: Inputs, factor: Floats) -> float:
    """Squared error of what the products give, inputs taken as independent."""
    total = 0.0
    for product, rounding in group:
        tensor = product.weight.const_value
        assert tensor is not None
        array = tensor.numpy()
        columns = array if product.transposed else array.T
        columns = np.asarray(columns[:: max(1, len(columns) // _COLUMNS)], np.float32)
        restored = to_nearest(blocked(columns * factor, rounding.grid), rounding.grid).restored()
        off = restored.reshape(len(columns), -1)[:, : columns.shape[1]] / factor - columns
        total += float(np.einsum("nk,nk,k->", off, off, seen.importance) / len(columns) * product.columns)
    return total
