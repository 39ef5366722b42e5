"""Rewrites the products of a graph to 8-bit ones; ``quantize_dynamic`` beside it has the pattern."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from optim.onnx import read_constant
from optim_plugins.ort.graph.products import Product
from optim_plugins.ort.measure.channel_means import Means
from optim_plugins.ort.quantize.dynamic.row_scales import scale_rows
from optim_plugins.ort.quantize.integer_weights import Floats, IntegerGrid, IntegerWeight, mean_error, quantize_weight
from optim_plugins.ort.quantize.product_rewriter import MICROSOFT, ProductRewriter
from optim_plugins.ort.quantize.smoothing import Factors, add_smoothed, connect_smoothed, fold_smoothing

if TYPE_CHECKING:
    from optim_plugins.ort.quantize.dynamic.quantize_dynamic_options import QuantizeDynamicOptions

_COARSE_BITS = 8


@dataclass(frozen=True)
class _Weight:
    integers: ir.Value
    scale: ir.Value
    zero_point: ir.Value
    error: Floats | None = None


@dataclass(frozen=True)
class _Activation:
    integers: ir.Value
    scale: ir.Value
    zero_point: ir.Value


class ProductQuantizer(ProductRewriter):
    """Holds what products share: quantized inputs and quantized weights.

    ``known`` has weights of the main graph that were quantized before on the same samples, and gets those that are new.

    Attributes:
        folded: how many scalings of a product's input cost nothing.
        rows_scaled: how many products have a scale for each row of what they are given.
        corrected: how many biases have what rounding weights adds on average taken off.
    """

    def __init__(
        self,
        graph: ir.Model,
        products: Sequence[Product],
        options: QuantizeDynamicOptions,
        factors: Factors,
        narrow: Collection[str] = (),
        means: Means | None = None,
        known: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(graph)
        self._known = {} if known is None else known
        self.corrected = self.rows_scaled = 0
        self._means = {product.node: (means or {}).get(product.a.name or "") for product in products}
        self._options = options
        self._narrow = narrow
        self._given = {product.node: product.a.name or "" for product in products}
        self._factors = {product.node: factors.get(product.a.name or "") for product in products}
        smoothed = add_smoothed(graph, factors)
        connect_smoothed(products, smoothed)
        self.folded = fold_smoothing(graph, smoothed)
        readers = Counter(product.a for product in products)
        self._alone = {product.node for product in products if readers[product.a] == 1}
        self._activations: dict[tuple[ir.Value, ir.Graph | ir.Function | None], _Activation] = {}
        self._rests: dict[tuple[ir.Value, ir.Graph | ir.Function | None], _Activation] = {}
        self._weights: dict[tuple[ir.Value, bool, str, bool], _Weight | None] = {}

    def rewrite(self, product: Product) -> bool:
        """Replace one product; False where its weight cannot be quantized."""
        weight = self._weight(product)
        if weight is None:
            self.refused.append(product.name)
            return False
        if self._options.activation_bits > _COARSE_BITS or product.name in self._options.finer:
            new = self._two_products(product, weight)
        elif self._options.scale_rows and product.node in self._alone:
            new = self._of_scaled_rows(product, weight)
        else:
            new = [self._product(product, weight)]
        self.put_in_place(product, new)
        return True

    def _two_products(self, product: Product, weight: _Weight) -> list[ir.Node]:
        """The product of what 8 bits hold of the activation, and of what they leave over."""
        name, graph = f"{product.name}_quantized", product.node.graph
        assert graph is not None
        high = self._activation(product)
        low = self._rest(product, high)
        nodes = []
        for a, part in ((high, "high"), (low, "low")):
            bias = self._bias(product, weight) if part == "high" else []
            operands = [a.integers, weight.integers, a.scale, weight.scale, a.zero_point, weight.zero_point, *bias]
            nodes.append(ir.node("MatMulIntegerToFloat", operands, domain=MICROSOFT, name=f"{name}_{part}"))
        return [*nodes, ir.node("Add", [node.outputs[0] for node in nodes], name=name)]

    def _rest(self, product: Product, high: _Activation) -> _Activation:
        """What 8 bits leave over of an activation, in 8 bits: both together are one of 16."""
        key = (product.a, product.node.graph)
        if key not in self._rests:
            name = product.a.name
            held = ir.node("DequantizeLinear", [high.integers, high.scale, high.zero_point], name=f"{name}_held")
            rest = ir.node("Sub", [product.a, held.outputs[0]], name=f"{name}_rest")
            quantize = ir.node("DynamicQuantizeLinear", [rest.outputs[0]], num_outputs=3, name=f"{name}_rest_quantize")
            for node in (held, rest):
                node.outputs[0].name, node.outputs[0].type = self.names.take(f"{node.name}_output"), product.a.type
                node.outputs[0].shape = product.a.shape
            for output, suffix in zip(quantize.outputs, ("quantized", "scale", "zero_point"), strict=True):
                output.name = self.names.take(f"{name}_rest_{suffix}")
            quantized = high.integers.producer()
            assert quantized is not None
            assert quantized.graph is not None
            quantized.graph.insert_after(quantized, [held, rest, quantize])
            self._rests[key] = _Activation(*quantize.outputs)
        return self._rests[key]

    def _product(self, product: Product, weight: _Weight) -> ir.Node:
        name = f"{product.name}_quantized"
        bias = self._bias(product, weight)
        if product.node in self._alone:
            operands = [product.a, weight.integers, weight.scale, weight.zero_point, *bias]
            return ir.node("DynamicQuantizeMatMul", operands, domain=MICROSOFT, name=name)
        a = self._activation(product)
        operands = [a.integers, weight.integers, a.scale, weight.scale, a.zero_point, weight.zero_point, *bias]
        return ir.node("MatMulIntegerToFloat", operands, domain=MICROSOFT, name=name)

    def _of_scaled_rows(self, product: Product, weight: _Weight) -> list[ir.Node]:
        """The product of what each row is of its largest number, times that number."""
        name, largest, scaled = f"{product.name}_quantized", *scale_rows(self, product)
        self.rows_scaled += 1
        operands = [scaled, weight.integers, weight.scale, weight.zero_point]
        nodes = [ir.node("DynamicQuantizeMatMul", operands, domain=MICROSOFT, name=name)]
        nodes.append(ir.node("Mul", [nodes[-1].outputs[0], largest], name=f"{name}_rescale"))
        for bias in self._bias(product, weight):
            nodes.append(ir.node("Add", [nodes[-1].outputs[0], bias], name=f"{name}_bias"))
        return nodes

    def _bias(self, product: Product, weight: _Weight) -> list[ir.Value]:
        """What is added to the product: its vector, less what rounding its weight adds on average."""
        if weight.error is None:
            return [] if product.vector is None else [product.vector]
        self.corrected += 1
        vector = 0 if product.vector is None else read_constant(product.vector)
        return [self.initializer(f"{product.name}_corrected_bias", (vector - weight.error).astype(np.float32))]

    def _activation(self, product: Product) -> _Activation:
        graph, a = product.node.graph, product.a
        assert graph is not None
        if (a, graph) not in self._activations:
            quantize = ir.node("DynamicQuantizeLinear", [a], num_outputs=3, name=self.names.take(f"{a.name}_quantize"))
            for output, suffix in zip(quantize.outputs, ("quantized", "scale", "zero_point"), strict=True):
                output.name = self.names.take(f"{a.name}_{suffix}")
            producer = a.producer()
            if producer is not None and producer.graph is graph:
                graph.insert_after(producer, quantize)
            else:
                graph.insert_before(graph[0], quantize)
            self._activations[a, graph] = _Activation(*quantize.outputs)
        return self._activations[a, graph]

    def _weight(self, product: Product) -> _Weight | None:
        factor, mean = self._factors[product.node], self._means[product.node]
        narrow = product.name in self._narrow
        given = "" if factor is None and mean is None else self._given[product.node]
        key = (product.weight, product.transposed, given, narrow)
        if key not in self._weights:
            quantized, error = self._quantized(product, factor, mean, narrow=narrow)
            self._weights[key] = (
                None
                if quantized is None
                else _Weight(
                    self.initializer(f"{product.weight.name}_quantized", quantized.integers),
                    self.initializer(f"{product.weight.name}_scale", quantized.scale),
                    self.initializer(f"{product.weight.name}_zero_point", quantized.zero),
                    error,
                )
            )
        return self._weights[key]

    def _quantized(
        self, product: Product, factor: Floats | None, mean: Floats | None, *, narrow: bool
    ) -> tuple[IntegerWeight | None, Floats | None]:
        """The integers of a weight, None where it is not finite, and what rounding adds to its product on average."""
        options, tensor = self._options, product.weight.const_value
        assert tensor is not None
        grid = IntegerGrid(options.weights, options.symmetric)
        how = grid, options.per_channel, narrow, product.transposed, "" if mean is None else self._given[product.node]
        scaled = "" if factor is None else hashlib.sha256(factor.tobytes()).hexdigest()
        name = f"{product.weight.name} {how} {scaled}"
        known = self._known if product.node.graph is self.graph.graph else {}  # a branch may have the same name
        if name not in known:
            weight, transposed = tensor.numpy(), product.transposed
            quantized = quantize_weight(
                weight,
                transposed=transposed,
                per_channel=options.per_channel,
                reduce_range=narrow,
                factor=factor,
                grid=grid,
            )
            error = None
            if quantized is not None and mean is not None:
                error = mean_error(weight, quantized, mean, transposed, factor)
            known[name] = quantized, error
        found: tuple[IntegerWeight | None, Floats | None] = known[name]
        return found
