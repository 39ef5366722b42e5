"""Rewrites products and table look-ups to ones that read weights in blocks of a few bits.

See :mod:`optim_plugins.ort.quantize.weights.quantize_weights` for the patterns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from optim_plugins.ort.graph.products import Product
from optim_plugins.ort.quantize.product_rewriter import MICROSOFT, ProductRewriter
from optim_plugins.ort.quantize.weights.block_plan import Rounding
from optim_plugins.ort.quantize.weights.block_rounding import METHODS, k_quant
from optim_plugins.ort.quantize.weights.block_weights import BlockWeight, BlockWeightWriter, Floats, blocked, chunks
from optim_plugins.ort.quantize.weights.embeddings import Embedding
from optim_plugins.ort.quantize.weights.gptq import ColumnOrder, gptq, orders
from optim_plugins.ort.quantize.weights.rounded_before import Known
from optim_plugins.ort.quantize.weights.seen_inputs import Inputs


@dataclass(frozen=True)
class _Weight:
    operands: tuple[ir.Value, ...]
    rows: int
    columns: int


class BlockRewriter(ProductRewriter):
    """Holds what products and look-ups share: rounded weights.

    Args:
        graph: to be rewritten.
        known: weights that were rounded by samples before; what is rounded now is added.

    Attributes:
        without_samples: names of products of which no sample shows what they are given.
    """

    def __init__(self, graph: ir.Model, known: Known) -> None:
        super().__init__(graph)
        self.without_samples: list[str] = []
        self._known = known
        self._weights: dict[tuple[ir.Value, bool, Rounding], _Weight | None] = {}
        self._ordered: tuple[Inputs, list[ColumnOrder]] | None = None

    def knows(self, product: Product, rounding: Rounding) -> bool:
        """Whether its weight was rounded before: its inputs need not be looked at."""
        return (product.name, product.weight.name or "", product.transposed, rounding) in self._known

    def rewrite(self, place: Product | Embedding, rounding: Rounding, inputs: Mapping[str, Inputs]) -> bool:
        """Replace a product or a look-up; False where its weight cannot be rounded.

        Args:
            place: to be replaced.
            rounding: of its weight.
            inputs: what products were given, by name of the product; for methods that ask for it.
        """
        if isinstance(place, Product):
            weight = self._weight(place.name, place.weight, place.transposed, rounding, inputs.get(place.name))
        else:
            weight = self._weight(place.name, place.table, True, rounding, None)
        if weight is None:
            return False
        if isinstance(place, Product):
            self.put_in_place(place, [_product(place, weight, rounding)])
        else:
            self.replace([self._look_up(place, weight, rounding)], old=(place.node,))
        return True

    def _look_up(self, embedding: Embedding, weight: _Weight, rounding: Rounding) -> ir.Node:
        grid, (integers, *rest) = rounding.grid, weight.operands
        operands = [self._flat(integers, weight, grid.bits), embedding.indices, *rest]
        attributes = {"bits": grid.bits, "block_size": grid.block, "gather_axis": 0, "quantize_axis": 1}
        name = f"{embedding.name}_quantized"
        return ir.node("GatherBlockQuantized", operands, attributes, domain=MICROSOFT, name=name)

    def _flat(self, integers: ir.Value, weight: _Weight, bits: int) -> ir.Value:
        """The table as its look-up reads it, [N, K * bits / 8]: the same bytes, where no block is padded."""
        tensor = integers.const_value
        assert tensor is not None
        rows = tensor.numpy().reshape(weight.columns, -1)
        return self.initializer(f"{integers.name}_table", np.ascontiguousarray(rows[:, : -(-weight.rows * bits // 8)]))

    def _weight(
        self, reader: str, value: ir.Value, transposed: bool, rounding: Rounding, inputs: Inputs | None
    ) -> _Weight | None:
        key = (value, transposed, rounding)
        if key not in self._weights:
            tensor = value.const_value
            assert tensor is not None
            array = tensor.numpy()
            columns = array if transposed else array.T
            if inputs is not None and inputs.factor is not None:
                columns = columns * inputs.factor
            known = (reader, value.name or "", transposed, rounding)
            if known in self._known:
                found = self._known[known]
            else:
                found = round_weight(columns, rounding, inputs, self._orders_of(inputs))
                if rounding.by_samples and inputs is None:
                    self.without_samples.append(reader)
                elif rounding.by_samples:
                    self._known[known] = found
            self._weights[key] = None if found is None else self._stored(value, found, columns)
        if self._weights[key] is None:
            self.refused.append(reader)
        return self._weights[key]

    def _orders_of(self, inputs: Inputs | None) -> list[ColumnOrder]:
        """Those of the last products are kept: query, key and value read the same input."""
        if inputs is None or not inputs.products:
            return []
        if self._ordered is None or self._ordered[0] is not inputs:
            self._ordered = None
            self._ordered = (inputs, orders(inputs))
        return self._ordered[1]

    def _stored(self, value: ir.Value, found: BlockWeight, columns: Floats) -> _Weight:
        operands = [
            self.initializer(f"{value.name}_quantized", found.packed),
            self.initializer(f"{value.name}_scale", found.scale),
        ]
        if found.zero_points is not None:
            operands.append(self.initializer(f"{value.name}_zero_point", found.zero_points))
        return _Weight(tuple(operands), columns.shape[1], columns.shape[0])


def _product(product: Product, weight: _Weight, rounding: Rounding) -> ir.Node:
    operands: list[ir.Value | None] = [product.a, *weight.operands]
    if product.vector is not None:
        operands += [None] * (5 - len(operands)) + [product.vector]
    grid = rounding.grid
    attributes = {
        "K": weight.rows,
        "N": weight.columns,
        "bits": grid.bits,
        "block_size": grid.block,
        "accuracy_level": rounding.accuracy_level,
    }
    return ir.node("MatMulNBits", operands, attributes, domain=MICROSOFT, name=f"{product.name}_quantized")


def round_weight(
    columns: Floats, rounding: Rounding, inputs: Inputs | None = None, ordered: list[ColumnOrder] | None = None
) -> BlockWeight | None:
    """A weight in blocks, worked on a few columns at a time.

    Args:
        columns: the weight as [N, K]; may be mapped from a file.
        rounding: how.
        inputs: of the product, for methods that ask for them; without them they are k-quant.
        ordered: made of them, for gptq.

    Returns:
        The rounded weight, or None where the weight is not finite.
    """
    grid = rounding.grid
    if not all(np.isfinite(chunk).all() for _, chunk in chunks(columns)):
        return None
    writer = BlockWeightWriter(columns.shape[1], columns.shape[0], grid)
    if rounding.method == "gptq" and inputs is not None and ordered:
        for start, rounded in gptq(columns, inputs.importance, ordered, grid):
            writer.put(start, rounded)
        return writer.finish()
    importance = blocked(inputs.importance[None], grid)[0] if rounding.by_samples and inputs is not None else None
    for start, chunk in chunks(columns):
        blocks = blocked(chunk, grid)
        k_quants = rounding.by_samples or rounding.method == "k-quant"
        writer.put(start, k_quant(blocks, grid, importance) if k_quants else METHODS[rounding.method](blocks, grid))
    return writer.finish()
