"""ONNX Runtime's record of which node it gave to which provider, and what of it may lie on the CPU.

``session.disable_cpu_ep_fallback`` refuses every graph that has a node on the CPU. Providers of GPUs leave the
computation of shapes there by design, so it refuses every dynamic model. The record tells such nodes from those that
a model spends its time in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from optim.errors import ExitStatus, OptimError, some_of
from optim.providers.names import CPU

if TYPE_CHECKING:
    import onnx
    import onnxruntime

RECORD_ASSIGNMENT = {"session.record_ep_graph_assignment_info": "1"}
"""Config entries that make onnxruntime record the provider of each node."""

_SHAPES = ("Shape", "Size")
_SHOWN = 4


def assigned_nodes(session: onnxruntime.InferenceSession) -> Mapping[str, list[tuple[str, str]]]:
    """Returns name and operator of the nodes of each provider, in a session opened with ``RECORD_ASSIGNMENT``.

    The nodes are those of the graph after the first rewrites of the runtime.
    """
    found: dict[str, list[tuple[str, str]]] = {}
    for part in session.get_provider_graph_assignment_info():
        found.setdefault(part.ep_name, []).extend((node.name, node.op_type) for node in part.get_nodes())
    return found


def nodes_by_provider(session: onnxruntime.InferenceSession) -> Mapping[str, list[str]]:
    """Returns the names of the nodes of each provider, in a session opened with ``RECORD_ASSIGNMENT``."""
    return {provider: [name for name, _ in nodes] for provider, nodes in assigned_nodes(session).items()}


def provider_shares(counts: Mapping[str, int], provider: str) -> dict[str, float]:
    """Returns the share of nodes by provider, 0..1; all on ``provider`` if no node is left to run."""
    total = sum(counts.values())
    return {name: count / total for name, count in counts.items()} if total else {provider: 1.0}


def require_shapes_only(session: onnxruntime.InferenceSession, path: Path) -> None:
    """Refuse a session, opened with ``RECORD_ASSIGNMENT``, that leaves more than shapes and integers to the CPU."""
    left = assigned_nodes(session).get(CPU, [])
    if not left:
        return
    import onnx

    computing = computing_nodes(left, onnx.load(path, load_external_data=False))
    if not computing:
        return
    shown = some_of([f"{operator} '{name}'" for name, operator in computing], _SHOWN)
    provider = session.get_providers()[0]
    raise OptimError(
        "left-to-cpu",
        f"{provider} does not run {len(computing)} {'node' if len(computing) == 1 else 'nodes'} of {path.name}",
        f"{shown}: onnxruntime would run them on the CPU, between copies from and to the device",
        "leave out the pass that made them (--without PASS), or allow the CPU, if the target can: NAME:fallback=cpu",
        status=ExitStatus.NOT_HELD,
    )


def computing_nodes(nodes: Iterable[tuple[str, str]], model: onnx.ModelProto) -> list[tuple[str, str]]:
    """Those of some nodes that compute what is neither a shape nor an integer.

    A node computes shapes where all that it is given comes of shapes and of constants, such as the root of a size in
    attention. What the runtime's own rewrites made is in no graph: it is judged by its operator.

    Args:
        nodes: name and operator of each.
        model: the graph that was opened; its weights are not read.
    """
    import onnx

    integer = _integers(onnx.shape_inference.infer_shapes(model))
    harmless: set[str] = set()
    known: set[str] = set()
    for node, of_shapes in _told_apart(model.graph, frozenset()):
        known.add(node.name)
        if of_shapes or all(name in integer for name in node.output if name):
            harmless.add(node.name)
    return [
        (name, operator)
        for name, operator in nodes
        if name not in harmless and not (name not in known and operator in (*_SHAPES, *_BETWEEN))
    ]


_BETWEEN = ("Cast", "Unsqueeze", "Squeeze", "Gather", "Slice", "Concat", "Reshape", "ConstantOfShape", "Range")
"""What the runtime's rewrites of shape computations make: operators that move numbers."""


def _told_apart(graph: onnx.GraphProto, outer: frozenset[str]) -> Iterator[tuple[onnx.NodeProto, bool]]:
    """Each node of a graph and of its branches, and whether all that it is given comes of shapes and constants."""
    given = {value.name for value in graph.input}
    of_shapes = {*outer, *(tensor.name for tensor in graph.initializer if tensor.name not in given)}
    for node in graph.node:
        found = node.op_type in _SHAPES or all(name in of_shapes for name in node.input if name)
        branches = [attribute.g for attribute in node.attribute if attribute.HasField("g")]
        for branch in branches:
            yield from _told_apart(branch, frozenset(of_shapes))
        found = found and not branches
        if found:
            of_shapes.update(node.output)
        yield node, found


def _integers(model: onnx.ModelProto) -> set[str]:
    """Values that are integers or booleans, as far as inference tells."""
    import onnx

    kinds = onnx.TensorProto
    floats = {kinds.FLOAT, kinds.DOUBLE, kinds.FLOAT16, kinds.BFLOAT16, kinds.UNDEFINED}
    values = [*model.graph.value_info, *model.graph.output, *model.graph.input]
    return {value.name for value in values if value.type.tensor_type.elem_type not in floats}
