"""Rewrites the products of a graph to 8-bit ones; see :mod:`optim_plugins.ort.quantize_dynamic` for the pattern."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from optim_plugins.ort.integer_weights import quantize_weight
from optim_plugins.ort.products import Product

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from optim_plugins.ort.quantize_dynamic_options import QuantizeDynamicOptions

_MICROSOFT = "com.microsoft"


@dataclass(frozen=True)
class _Weight:
    integers: ir.Value
    scale: ir.Value
    zero_point: ir.Value


@dataclass(frozen=True)
class _Activation:
    integers: ir.Value
    scale: ir.Value
    zero_point: ir.Value


class ProductQuantizer:
    """Holds what products share: quantized inputs and quantized weights."""

    def __init__(self, graph: ir.Model, products: Sequence[Product], options: QuantizeDynamicOptions) -> None:
        self.refused: list[str] = []
        self._graph = graph
        self._options = options
        readers = Counter(product.a for product in products)
        self._alone = {product.node for product in products if readers[product.a] == 1}
        self._activations: dict[tuple[ir.Value, ir.Graph | ir.Function | None], _Activation] = {}
        self._weights: dict[tuple[ir.Value, bool], _Weight | None] = {}
        self._names = {value.name for part in graph.graphs() for value in part.initializers.values()}
        self._names |= {output.name for node in graph.graph.all_nodes() for output in node.outputs}

    def rewrite(self, product: Product) -> bool:
        """Replace one product; False where its weight cannot be quantized."""
        weight = self._weight(product)
        if weight is None:
            self.refused.append(product.name)
            return False
        new = [self._product(product, weight)]
        if product.addend is not None:
            new.append(ir.node("Add", [new[-1].outputs[0], product.addend], name=f"{product.name}_addend"))
        if product.activation is not None:
            new.append(ir.node(product.activation, [new[-1].outputs[0]], domain=_MICROSOFT, name=product.last.name))
        self._put_in_place(product, new)
        return True

    def _put_in_place(self, product: Product, new: list[ir.Node]) -> None:
        last = product.last
        result, place = last.outputs[0], last.graph
        assert place is not None
        for node in new:
            node.metadata_props.update(product.node.metadata_props)
            node.outputs[0].type, node.outputs[0].shape = result.type, result.shape
            node.outputs[0].name = self._fresh(f"{node.name}_output")
        new[-1].outputs[0].name = result.name
        place.insert_before(last, new)
        ir.convenience.replace_all_uses_with(result, new[-1].outputs[0], replace_graph_outputs=True)
        for old in dict.fromkeys((last, product.node)):
            place.remove(old, safe=True)

    def finish(self) -> None:
        """Drop weights and Transposes that nothing reads any more, and say which operators are used."""
        RemoveUnusedNodesPass()(self._graph)
        self._graph.graph.opset_imports.setdefault(_MICROSOFT, 1)

    def _product(self, product: Product, weight: _Weight) -> ir.Node:
        name = f"{product.name}_quantized"
        bias = [] if product.vector is None else [product.vector]
        if product.node in self._alone:
            operands = [product.a, weight.integers, weight.scale, weight.zero_point, *bias]
            return ir.node("DynamicQuantizeMatMul", operands, domain=_MICROSOFT, name=name)
        a = self._activation(product)
        operands = [a.integers, weight.integers, a.scale, weight.scale, a.zero_point, weight.zero_point, *bias]
        return ir.node("MatMulIntegerToFloat", operands, domain=_MICROSOFT, name=name)

    def _activation(self, product: Product) -> _Activation:
        graph, a = product.node.graph, product.a
        assert graph is not None
        if (a, graph) not in self._activations:
            quantize = ir.node("DynamicQuantizeLinear", [a], num_outputs=3, name=self._fresh(f"{a.name}_quantize"))
            for output, suffix in zip(quantize.outputs, ("quantized", "scale", "zero_point"), strict=True):
                output.name = self._fresh(f"{a.name}_{suffix}")
            producer = a.producer()
            if producer is not None and producer.graph is graph:
                graph.insert_after(producer, quantize)
            else:
                graph.insert_before(graph[0], quantize)
            self._activations[a, graph] = _Activation(*quantize.outputs)
        return self._activations[a, graph]

    def _weight(self, product: Product) -> _Weight | None:
        key = (product.weight, product.transposed)
        if key not in self._weights:
            tensor = product.weight.const_value
            assert tensor is not None
            options = self._options
            quantized = quantize_weight(
                tensor.numpy(), transposed=product.transposed, per_channel=options.per_channel,
                reduce_range=options.reduce_range,
            )  # fmt: skip
            self._weights[key] = None if quantized is None else _Weight(
                self._initializer(f"{product.weight.name}_quantized", quantized.integers),
                self._initializer(f"{product.weight.name}_scale", quantized.scale),
                self._initializer(f"{product.weight.name}_zero_point", np.zeros(quantized.scale.shape, np.int8)),
            )  # fmt: skip
        return self._weights[key]

    def _initializer(self, name: str, array: NDArray[np.generic]) -> ir.Value:
        name = self._fresh(name)
        tensor = ir.tensor(array, name=name)
        value = ir.Value(name=name, shape=ir.Shape(array.shape), type=ir.TensorType(tensor.dtype), const_value=tensor)
        self._graph.graph.register_initializer(value)
        return value

    def _fresh(self, name: str) -> str:
        """The name, or one made from it that nothing else has."""
        found, number = name, 1
        while found in self._names:
            number += 1
            found = f"{name}_{number}"
        self._names.add(found)
        return found
