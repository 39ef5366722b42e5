"""A model with inputs for an adapter, and whether a pass kept them: an adapter that is fed must still be heard."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.arrays import Feeds
from optim.backend import Backend
from optim.drift import relative_distance
from optim.errors import OptimError
from optim.model import AdapterInput, Model, TensorInfo
from optim.target import Target

if TYPE_CHECKING:
    import onnx_ir as ir

_DOWN, _UP = "optim.kit.lora_A", "optim.kit.lora_B"
_LARGEST_LOSS = 0.3
"""Of what the adapter adds: a lossy pass changes some of it, one that loses the adapter all. This is no drift: it asks
whether an input is read, and the drift of outputs with an adapter is judged as that of any other input."""


@dataclass(frozen=True, slots=True)
class Adapted:
    """A model that takes an adapter.

    Attributes:
        model: with two inputs more, whose defaults have rank 0.
        weights: an adapter of rank 1, which adds to each row of one output.
    """

    model: Model
    weights: Feeds


def with_adapter_inputs(model: Model, store: Path) -> Adapted | None:
    """A model whose first suitable output has an adapter; None where no output is of floats with a fixed last size.

        y' = y + MatMul(MatMul(y, lora_A), lora_B)

    Args:
        model: in the store.
        store: folder of the store.
    """
    import onnx_ir as ir

    from optim.engine.testing import save_in_store
    from optim.onnx import name_adapter_inputs

    graph = model.ir()
    for place, output in enumerate(graph.graph.outputs):
        width = output.shape[-1] if output.shape is not None and len(output.shape) > 1 else None
        if output.dtype != ir.DataType.FLOAT or not isinstance(width, int) or output.producer() is None:
            continue
        down = _input(graph, _DOWN, ir.Shape((width, "optim_kit_rank")), np.zeros((width, 0), np.float32))
        up = _input(graph, _UP, ir.Shape(("optim_kit_rank", width)), np.zeros((0, width), np.float32))
        name, output.name = output.name, f"{output.name}_before_adapter"
        low = _node(graph, "MatMul", output, down)
        whole = _node(graph, "Add", output, _node(graph, "MatMul", low, up))
        whole.name, whole.shape, whole.type = name, output.shape, output.type
        graph.graph.outputs[place] = whole
        shapes: dict[str, tuple[int | str, ...]] = {_DOWN: (width, "optim_kit_rank"), _UP: ("optim_kit_rank", width)}
        infos = [TensorInfo(one, "float32", shape) for one, shape in shapes.items()]
        name_adapter_inputs(graph, [AdapterInput(info, "optim.kit", info.name[-1]) for info in infos])
        slope = np.linspace(-1, 1, width, dtype=np.float32)  # a mean would not hear what was normalized
        weights = {_DOWN: (slope[:, None] / width**0.5), _UP: slope[None]}
        return Adapted(save_in_store(graph, store, session=model.session), weights)
    return None


def adapter_defect(before: Adapted, after: Model, feeds: Feeds, backend: Backend, target: Target) -> str:
    """What a pass did to the adapter inputs of its model; empty where an adapter is heard as before.

    Args:
        before: what the pass was given.
        after: what it made.
        feeds: one sample.
        backend: runs both.
        target: where.
    """
    from optim.engine.testing import lost_adapter_inputs

    lost = lost_adapter_inputs(before.model.adapters, after.adapters, (info.name for info in after.inputs))
    if lost:
        return lost
    wanted, got = (_added(model, before.weights, feeds, backend, target) for model in (before.model, after))
    for name, array in wanted.items():
        if name in got and array.any() and relative_distance(array, got[name]) > _LARGEST_LOSS:
            return f"output '{name}' does not hear an adapter as it did before"
    return ""


def adapter_refusal(adapted: Adapted, feeds: Feeds, backend: Backend, target: Target) -> str:
    """Why a backend does not run the model that a pass would be given; empty where it does."""
    try:
        _added(adapted.model, adapted.weights, feeds, backend, target)
    except OptimError as error:
        return error.cause or error.what
    return ""


def _added(model: Model, weights: Feeds, feeds: Feeds, backend: Backend, target: Target) -> dict[str, Any]:
    """What the adapter adds to every output of floats."""
    with backend.open(model, target) as session:
        with_it, without = session.run({**feeds, **weights}), session.run(feeds)
    with np.errstate(invalid="ignore"):  # infinities of both leave NaN, whatever the adapter adds
        return {
            name: array.astype(np.float64) - without[name].astype(np.float64)
            for name, array in with_it.items()
            if array.dtype.kind == "f"
        }


def _input(graph: ir.Model, name: str, shape: ir.Shape, default: Any) -> ir.Value:
    import onnx_ir as ir

    value = ir.Value(name=name, shape=shape, type=ir.TensorType(ir.DataType.FLOAT))
    value.const_value = ir.tensor(default, name=name)
    graph.graph.inputs.append(value)
    graph.graph.register_initializer(value)
    return value


def _node(graph: ir.Model, operator: str, *inputs: ir.Value) -> ir.Value:
    import onnx_ir as ir

    number = sum(1 for _ in graph.graph)
    node = ir.node(operator, inputs, name=f"optim_kit_{operator}_{number}")
    node.outputs[0].name, node.outputs[0].type = f"optim_kit_{number}", ir.TensorType(ir.DataType.FLOAT)
    graph.graph.append(node)
    return node.outputs[0]
