"""Nodes looked up in a graph: those that a user names, and those that compute as in training."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path

import onnx

from optim.errors import OptimError
from optim.model import Model
from optim.onnx.operators import plain_domain, walk_graphs
from optim.onnx.skeleton import read_skeleton


def unknown_nodes(model: Model, names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Those of the names that no node of the graph has, each with what comes near.

    A node without a name is called by its first output.
    """
    known = [node.name or (node.outputs[0].name if node.outputs else "") or "" for node in model.ir().graph.all_nodes()]
    unknown = dict.fromkeys(name for name in names if name not in known)
    return {name: tuple(difflib.get_close_matches(name, known, n=3, cutoff=0.5)) for name in unknown}


def no_such_node(name: str, near: Iterable[str], pass_name: str, looked_at: str) -> OptimError:
    """The error for a name in ``keep`` that no node has."""
    meant = " or ".join(near)
    return OptimError.usage(
        "unknown-node",
        f"there is no node '{name}' that {pass_name} could keep",
        f"looked for in {looked_at}" + (f"; did you mean {meant}?" if meant else ""),
        f"optim sensitivity MODEL --as {pass_name} lists the nodes",
    )


EVALUATE = "export it in eval mode: model.eval() before torch.onnx.export"

_TRAINING_INPUT = 2
"""Of a Dropout, from opset 12 on."""


def training_node(path: Path) -> str:
    """A node of a graph that computes as in training, in words; empty where there is none.

    Such a Dropout drops at random. Such a BatchNormalization takes mean and variance of the batch that it is given, so
    that what else lies there changes an answer.
    """
    graphs = list(walk_graphs(read_skeleton(path).graph))
    nodes = [node for graph in graphs for node in graph.node if not plain_domain(node.domain)]
    true = {tensor.name for graph in graphs for tensor in graph.initializer if _is_true(tensor)}
    constants = [(node.output[0], one) for node in nodes if node.op_type == "Constant" for one in node.attribute]
    true |= {name for name, attribute in constants if attribute.name == "value" and _is_true(attribute.t)}
    training = (node for node in nodes if _trains(node, true))
    return next((f"{node.op_type} '{node.name or node.output[0]}'" for node in training), "")


def training_notes(path: Path) -> tuple[str, ...]:
    """Returns what the report of a run says of such a node."""
    node = training_node(path)
    return (f"{node} computes as in training: {EVALUATE}",) if node else ()


def _trains(node: onnx.NodeProto, true: set[str]) -> bool:
    if node.op_type == "Dropout":
        return len(node.input) > _TRAINING_INPUT and node.input[_TRAINING_INPUT] in true
    return node.op_type == "BatchNormalization" and any(a.name == "training_mode" and a.i == 1 for a in node.attribute)


def _is_true(tensor: onnx.TensorProto) -> bool:
    is_one = tensor.data_type == onnx.TensorProto.BOOL and list(tensor.dims) in ([], [1])
    return is_one and bool(onnx.numpy_helper.to_array(tensor).any())
