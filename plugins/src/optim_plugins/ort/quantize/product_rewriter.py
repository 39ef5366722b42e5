"""Puts new nodes in the place of a product and of what belongs to it: what every quantization of products shares."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray
from onnx_ir.passes.common import RemoveUnusedNodesPass

from optim.onnx import UniqueNames, add_constant
from optim_plugins.ort.graph.products import Product

MICROSOFT = "com.microsoft"


class ProductRewriter:
    """Rewrites products of one graph.

    Attributes:
        graph: that is rewritten.
        names: of values, those that are free.
        opset: of standard operators.
        refused: names of products that stay float because their weight is not finite.
    """

    def __init__(self, graph: ir.Model) -> None:
        self.refused: list[str] = []
        self.graph = graph
        self.names = UniqueNames(graph)
        self.opset = graph.graph.opset_imports.get("", 1)

    def put_in_place(self, product: Product, new: list[ir.Node]) -> None:
        """Let ``new``, the last of which computes the product with its vector, stand for the product."""
        if product.addend is not None:
            new.append(ir.node("Add", [new[-1].outputs[0], product.addend], name=f"{product.name}_addend"))
        if product.activation is not None:
            new.append(ir.node(product.activation, [new[-1].outputs[0]], domain=MICROSOFT, name=product.last.name))
        self.replace(new, old=(product.last, product.node))

    def replace(self, new: Sequence[ir.Node], old: Sequence[ir.Node]) -> None:
        """Put nodes before the first of ``old``, whose output the last of them takes over; ``old`` goes."""
        result, place = old[0].outputs[0], old[0].graph
        assert place is not None
        for node in new:
            node.metadata_props.update(old[-1].metadata_props)
            node.outputs[0].type, node.outputs[0].shape = result.type, result.shape
            node.outputs[0].name = self.names.take(f"{node.name}_output")
        new[-1].outputs[0].name = result.name
        place.insert_before(old[0], new)
        ir.convenience.replace_all_uses_with(result, new[-1].outputs[0], replace_graph_outputs=True)
        for node in dict.fromkeys(old):
            place.remove(node, safe=True)

    def finish(self) -> None:
        """Drop weights and Transposes that nothing reads any more, and say which operators are used."""
        RemoveUnusedNodesPass()(self.graph)
        self.graph.graph.opset_imports.setdefault(MICROSOFT, 1)

    def initializer(self, name: str, array: NDArray[np.generic]) -> ir.Value:
        """A new constant of the main graph, under this name or one made from it."""
        return add_constant(self.graph.graph, self.names.take(name), array)
