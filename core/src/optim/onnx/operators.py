"""Which operators a graph is made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from optim.onnx.skeleton import read_skeleton

if TYPE_CHECKING:
    import onnx


def operator_counts(path: Path) -> dict[str, int]:
    """Nodes by operator, most frequent first; subgraphs and function bodies are counted too, each body once.

    Operators of the standard domain go by their type (``MatMul``), others by domain and type
    (``com.microsoft:Attention``). Reads no weights.
    """
    return count_operators(read_skeleton(path))


def count_operators(model: onnx.ModelProto) -> dict[str, int]:
    """As :func:`operator_counts`, of a model in memory."""
    counts = Counter(qualified_name(node.domain, node.op_type) for node in walk_nodes(model))
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def walk_nodes(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """Every node: of the graph, its subgraphs, and the model's functions."""
    yield from _walk(model.graph.node)
    for function in model.functions:
        yield from _walk(function.node)


def walk_graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """The graph and every subgraph inside it."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in subgraphs(attribute):
                yield from walk_graphs(inner)


def subgraphs(attribute: onnx.AttributeProto) -> list[onnx.GraphProto]:
    """The graphs that an attribute holds."""
    return [attribute.g, *attribute.graphs] if attribute.HasField("g") else list(attribute.graphs)


def qualified_name(domain: str, op_type: str) -> str:
    """Returns how an operator is called in reports."""
    return op_type if domain in ("", "ai.onnx") else f"{domain}:{op_type}"


def _walk(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in subgraphs(attribute):
                yield from _walk(graph.node)
