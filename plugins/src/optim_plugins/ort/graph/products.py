"""Finds the matrix products of a graph whose weight is a constant: what quantization of weights works on.

Four spellings, each with what reads it alone::

    MatMul(a, W)    MatMul(a, Transpose(W))    com.microsoft.FusedMatMul(a, W, transB=1)    Gemm(a, W, bias, transB=t)
    ... then Add(product, bias)                ... then com.microsoft.BiasGelu(product, bias) or FastGelu

Products that no input of the graph reaches, such as those of a table of positions, are none of them: the runtime
computes them once, when it opens the model. Quantized they are computed in every run, since it folds no quantization.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import onnx_ir as ir

from optim.onnx import adapter_names, only_reader

_STANDARD = ("", "ai.onnx")
_WITHOUT_BIAS = {"BiasGelu": "Gelu", "FastGelu": "FastGelu"}


@dataclass(frozen=True)
class Product:
    """``output = activation(a @ W + bias)``, where bias and activation may be absent.

    Attributes:
        node: the product.
        weight: the initializer, [K, N], or [N, K] where ``transposed``.
        transposed: the product reads the weight transposed.
        vector: a constant [N] that is added to the product.
        follower: the node that adds it, where that is not the product itself.
        activation: operator of domain com.microsoft that ends it, ``Gelu`` or ``FastGelu``, without a bias of its own.
    """

    node: ir.Node
    weight: ir.Value
    transposed: bool
    vector: ir.Value | None = None
    follower: ir.Node | None = None
    activation: str | None = None

    @property
    def name(self) -> str:
        """What ``keep`` calls it: the node's name, or that of its output where it has none."""
        return self.node.name or self.node.outputs[0].name or ""

    @property
    def a(self) -> ir.Value:
        """What is multiplied, [..., K]; another value once the node that computes it was rewritten."""
        value = self.node.inputs[0]
        assert value is not None
        return value

    @property
    def rows(self) -> int:
        """How many numbers each product adds up, K."""
        tensor = self.weight.const_value
        assert tensor is not None
        return int(tensor.shape.numpy()[1 if self.transposed else 0])

    @property
    def columns(self) -> int:
        """How many numbers come of each row, N."""
        tensor = self.weight.const_value
        assert tensor is not None
        return int(tensor.shape.numpy()[0 if self.transposed else 1])

    @property
    def addend(self) -> ir.Value | None:
        """What a Gemm adds that is not a constant [N]."""
        has_one = self.node.op_type == "Gemm" and len(self.node.inputs) > 2 and self.vector is None
        return self.node.inputs[2] if has_one else None

    @property
    def last(self) -> ir.Node:
        """The node that computes the output."""
        return self.follower or self.node


def find_products(graph: ir.Model, least_elements: int) -> Iterator[Product]:
    """Products with a float32 weight of at least so many elements, in the graph's order; none with an adapter's."""
    adapters, reached = adapter_names(graph), _reached_values(graph)
    for node in graph.graph.all_nodes():
        found = _operands(node)
        if found is None or found[0].name in adapters or node.inputs[0] not in reached:
            continue
        weight, transposed = found
        tensor = weight.const_value
        if tensor is None or tensor.dtype != ir.DataType.FLOAT or tensor.size < least_elements:
            continue
        shape, a = tensor.shape.numpy(), node.inputs[0]
        if len(shape) == 2 and a is not None and (a.shape is None or len(a.shape) >= 2):
            yield _whole(Product(node, weight, transposed), shape[0 if transposed else 1])


def _reached_values(graph: ir.Model) -> set[ir.Value | None]:
    """Values that depend on an input of the graph or of a body; a weight that is listed among the inputs is none."""
    parts = list(graph.graphs())
    reached: set[ir.Value | None] = {value for part in parts for value in part.inputs if not value.is_initializer()}
    for node in graph.graph.all_nodes():
        has_body = any(attribute.type == ir.AttributeType.GRAPH for attribute in node.attributes.values())
        if has_body or not reached.isdisjoint(value for value in node.inputs if value is not None):
            reached |= set(node.outputs)
    return reached


def gemm_weight(node: ir.Node) -> tuple[ir.Value, bool] | None:
    """The initializer that a Gemm of no factors multiplies its first input with, and whether transposed."""
    value = node.inputs[1]
    plain = _number(node, "alpha", 1) == 1 and _number(node, "beta", 1) == 1 and _number(node, "transA", 0) == 0
    is_weight = value is not None and value.is_initializer() and value.const_value is not None
    return (value, _number(node, "transB", 0) == 1) if plain and is_weight and value is not None else None


def _operands(node: ir.Node) -> tuple[ir.Value, bool] | None:
    """The weight and whether it is read transposed; None where this is no product with an initializer."""
    if len(node.inputs) < 2 or node.inputs[1] is None:
        return None
    value = node.inputs[1]
    if node.op_type == "FusedMatMul" and node.domain == "com.microsoft":
        return (value, True) if value.is_initializer() and _is_plain_transposed(node) else None
    if node.domain not in _STANDARD:
        return None
    if node.op_type == "Gemm":
        return gemm_weight(node)
    if node.op_type != "MatMul":
        return None
    producer = value.producer()
    if producer is not None and producer.op_type == "Transpose" and producer.domain in _STANDARD:
        source, permutation = producer.inputs[0], producer.attributes.get("perm")
        swaps = permutation is None or list(permutation.as_ints()) == [1, 0]
        return (source, True) if swaps and source is not None and source.is_initializer() else None
    return (value, False) if value.is_initializer() else None


def _is_plain_transposed(node: ir.Node) -> bool:
    """Whether a FusedMatMul is ``a @ b.T`` and nothing else."""
    numbers = {name: float(attribute.value) for name, attribute in node.attributes.items()}
    return numbers.pop("transB", 0) == 1 and numbers.pop("alpha", 1.0) == 1.0 and not any(numbers.values())


def _number(node: ir.Node, name: str, default: float) -> float:
    attribute = node.attributes.get(name)
    return default if attribute is None else float(attribute.value)


def _whole(product: Product, columns: int) -> Product:
    """The product with the bias and the activation that belong to it alone."""
    node = product.node
    if node.op_type == "Gemm":
        return replace(product, vector=_vector(node.inputs[2] if len(node.inputs) > 2 else None, columns))
    reader = only_reader(node.outputs[0])
    if reader is None or len(reader.inputs) != 2:
        return product
    first = reader.inputs[0] is node.outputs[0]
    vector = _vector(reader.inputs[1 if first else 0], columns)
    if vector is not None and reader.op_type == "Add" and reader.domain in _STANDARD:
        return replace(product, vector=vector, follower=reader)
    activation = _WITHOUT_BIAS.get(reader.op_type) if reader.domain == "com.microsoft" and first else None
    if vector is not None and activation is not None:
        return replace(product, vector=vector, follower=reader, activation=activation)
    return product


def _vector(value: ir.Value | None, columns: int) -> ir.Value | None:
    """The value, where it is a constant float32 vector of one number a column."""
    tensor = value.const_value if value is not None and value.is_initializer() else None
    fits = tensor is not None and tensor.dtype == ir.DataType.FLOAT and tensor.shape.numpy() == (columns,)
    return value if fits else None
