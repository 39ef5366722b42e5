"""Which operators a graph is made of."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from math import prod
from pathlib import Path

import onnx

from optim.onnx.skeleton import read_skeleton

_PLACES = {"MatMul": 1, "Conv": 49}
"""How often a weight is used: a kernel of a convolution at 7 times 7 places where it is at its smallest."""

_LEAST_RANK = 2
"""Of a weight that something is multiplied with."""

_BEFORE_ONNX = {"LayerNormalization": 17, "SimplifiedLayerNormalization": math.inf}
"""What onnxruntime has in the standard domain in every opset, and the first opset of ONNX that has it. Its optimizers,
its builder of decoders and onnxscript write these; ``ai.onnx:SimplifiedLayerNormalization`` is in most decoders that
are made for it."""

_HANDING_ON = frozenset(("Cast", "DequantizeLinear", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"))
"""They hand all elements of a weight on: exporters of torch write ``MatMul(x, Transpose(W))``."""


def operator_counts(path: Path) -> dict[str, int]:
    """Counts nodes by operator, most frequent first. Counts subgraphs too, and the body of each function once.

    Operators of the standard domain have their type as name (``MatMul``), others domain and type
    (``com.microsoft:Attention``). Reads no weights.
    """
    return count_operators(read_skeleton(path))


def count_operators(model: onnx.ModelProto) -> dict[str, int]:
    """As ``operator_counts``, of a model in memory."""
    counts = Counter(qualified_name(node.domain, node.op_type) for node in walk_nodes(model))
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def work_shares(path: Path) -> dict[str, float]:
    """About which share of a model's multiplications with weights each operator does, 0..1; a Gemm counts as a MatMul.

    A weight of a product is used once for each row, one of a convolution at some fifty places for the same: that is
    guessed, for shapes may be dynamic. It is nothing to go by where a model has both: of a reader of text products do
    9 %, and 2 % by this. Reads no weights.
    """
    weighed = _weighed(read_skeleton(path))
    return _shares((operator, multiplied) for _, operator, multiplied, _ in weighed if operator)


def work_by_weight(path: Path) -> dict[str, float]:
    """The share of the multiplications of each operator with weights of one shape, such as ``MatMul 384x1536``, 0..1.

    It is guessed as ``work_shares`` does. The order of dimensions does not count: a Gemm may have its weight
    transposed. Reads no weights.
    """
    weighed = _weighed(read_skeleton(path))
    return _shares((_by_weight(node, operator, dims), multiplied) for node, operator, multiplied, dims in weighed)


def _shares(work: Iterable[tuple[str, int]]) -> dict[str, float]:
    """Adds up multiplications by name, and returns the share of each name that has any."""
    added: Counter[str] = Counter()
    for name, multiplied in work:
        added[name] += multiplied
    total = added.total()
    return {name: count / total for name, count in added.items() if count}


def node_places(path: Path) -> dict[str, str]:
    """The place of each node with a name, such as ``MatMul 384x1536 3``: the third of these in the graph.

    Another export of the same architecture has other names at the same places. Reads no weights.
    """
    model = read_skeleton(path)
    weighed = {node.output[0]: _by_weight(node, operator, dims) for node, operator, _, dims in _weighed(model)}
    counts: Counter[str] = Counter()
    places = {}
    for node in model.graph.node:
        kind = weighed.get(node.output[0], node.op_type) if node.output else node.op_type
        counts[kind] += 1
        if node.name:
            places[node.name] = f"{kind} {counts[kind]}"
    return places


def _by_weight(node: onnx.NodeProto, operator: str, dims: Sequence[int]) -> str:
    return f"{operator or node.op_type} {'x'.join(map(str, sorted(dims)))}"


def node_work(model: onnx.ModelProto) -> dict[str, float]:
    """Multiplications with weights for each row, guessed as ``work_shares`` does, by the name of the node.

    Nodes without a name share the empty one.
    """
    found: dict[str, float] = {}
    for node, _, multiplied, _ in _weighed(model):
        found[node.name] = found.get(node.name, 0.0) + multiplied
    return found


def _weighed(model: onnx.ModelProto) -> Iterator[tuple[onnx.NodeProto, str, int, Sequence[int]]]:
    """Nodes that multiply with weights.

    Each with its operator, empty if it is not of ONNX, the multiplications for a row, and the largest weight's shape.
    """
    shapes = {tensor.name: tensor.dims for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type in _HANDING_ON and node.input and node.input[0] in shapes:
            shapes[node.output[0]] = shapes[node.input[0]]
        if plain_domain(node.domain):
            places = _PLACES["Conv"] if "Conv" in node.op_type else 1
            weights = [shapes[name] for name in node.input if len(shapes.get(name, ())) >= _LEAST_RANK]
            yield node, "", places * sum(map(prod, weights)), max(weights, key=prod, default=())
        elif (operator := weighing_operator(node.op_type)) and len(node.input) > 1 and node.input[1] in shapes:
            dims = shapes[node.input[1]]
            yield node, operator, _PLACES[operator] * prod(dims), dims


def weighing_operator(op_type: str) -> str:
    """Under which name the multiplications of an operator count: a Gemm is a MatMul; empty for one that has none."""
    operator = "MatMul" if op_type == "Gemm" else op_type
    return operator if operator in _PLACES else ""


def is_before_onnx(node: onnx.NodeProto, opset: int) -> bool:
    """Whether a node has an operator of the standard domain that onnxruntime has, and this opset of ONNX lacks."""
    return not plain_domain(node.domain) and 1 <= opset < _BEFORE_ONNX.get(node.op_type, 0)


def walk_nodes(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """Every node: of the graph, its subgraphs, and the model's functions."""
    yield from _walk(model.graph.node)
    for function in model.functions:
        yield from _walk(function.node)


def walk_graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """The graph and every subgraph inside it."""
    yield graph
    for node in _walk(graph.node):
        for attribute in node.attribute:
            yield from subgraphs(attribute)


def subgraphs(attribute: onnx.AttributeProto) -> list[onnx.GraphProto]:
    """Returns the graphs in an attribute."""
    return [attribute.g, *attribute.graphs] if attribute.HasField("g") else list(attribute.graphs)


def plain_domain(name: str) -> str:
    """Returns the name of a domain; empty for the standard domain, which has two names."""
    return "" if name == "ai.onnx" else name


def qualified_name(domain: str, op_type: str) -> str:
    """Returns the name of an operator in reports."""
    return f"{domain}:{op_type}" if plain_domain(domain) else op_type


def _walk(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in subgraphs(attribute):
                yield from _walk(graph.node)
