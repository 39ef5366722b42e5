"""A model in which two nodes share their weights, and whether the one that a pass should keep is as it was."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from optim.model import Model

if TYPE_CHECKING:
    import onnx_ir as ir

_TWIN = "_twin"


@dataclass(frozen=True, slots=True)
class Twins:
    """A model with a node twice.

    Attributes:
        model: with a second output, of the second of them.
        first: name of the node.
        second: name of the one that was added; it has the same inputs and weights.
    """

    model: Model
    first: str
    second: str


def with_twin(model: Model, names: Iterable[str], store: Path) -> Twins | None:
    """A model in which one of these nodes is there twice, sharing its weights; None where none of them has any.

    Args:
        model: in the store.
        names: of nodes; the first that has a weight and one output gets a twin.
        store: folder of the store.
    """
    import onnx_ir as ir

    from optim.engine.testing import save_in_store

    graph = model.ir()
    chosen = set(names)
    for node in list(graph.graph):
        if node.name not in chosen or len(node.outputs) != 1 or not _weights(node):
            continue
        before = node.outputs[0]
        after = ir.Value(name=f"{before.name}{_TWIN}", type=before.type, shape=before.shape)
        if after.type is None:
            after.type = ir.TensorType(ir.DataType.FLOAT)
        twin = ir.Node(
            node.domain,
            node.op_type,
            list(node.inputs),
            list(node.attributes.values()),
            outputs=[after],
            name=f"{node.name}{_TWIN}",
        )
        graph.graph.insert_after(node, [twin])
        graph.graph.outputs.append(after)
        return Twins(save_in_store(graph, store, session=model.session), str(node.name), str(twin.name))
    return None


def kept_defect(before: Model, after: Model, name: str) -> str:
    """Returns why a node that was to be kept is not as it was, or nothing.

    Args:
        before: the model that a pass was given.
        after: what it made of it.
        name: of the node.
    """
    import numpy as np

    old, new = _node(before, name), _node(after, name)
    if old is None:
        return f"there was no node '{name}'"
    if new is None:
        return f"node '{name}' is gone"
    if (new.domain, new.op_type) != (old.domain, old.op_type):
        return f"node '{name}' was {old.op_type} and is {new.op_type}"
    for place, weight in _weights(old).items():
        value = new.inputs[place] if place < len(new.inputs) else None
        if value is None or value.const_value is None:
            maker = value.producer() if value is not None else None
            return f"weight {place} of '{name}' is computed now" + (f", by {maker.op_type}" if maker else "")
        found, expected = value.const_value.numpy(), weight.numpy()
        if found.dtype != expected.dtype or not np.array_equal(found, expected):
            return f"weight {place} of '{name}', which it shares with another node, is not the same bit for bit"
    return ""


def _node(model: Model, name: str) -> ir.Node | None:
    return next((node for node in model.ir().graph.all_nodes() if node.name == name), None)


def _weights(node: ir.Node) -> dict[int, ir.TensorProtocol]:
    """Constant inputs, by their place."""
    return {
        place: value.const_value
        for place, value in enumerate(node.inputs)
        if value is not None and value.const_value is not None
    }
