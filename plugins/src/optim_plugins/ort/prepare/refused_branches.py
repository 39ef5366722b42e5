"""The branch of an ``If`` that no run gets through, because a later operator refuses what it gives.

Exporters that trace a squeeze of a size they do not know write both outcomes. Before::

    y = If(Shape(x)[-1] == 1, then=Squeeze(x, -1), else=Identity(x))
    LSTM(Unsqueeze(y, 0), ...)

After, since an LSTM takes three axes, and ``x`` has three::

    LSTM(Unsqueeze(Squeeze(x, -1), 0), ...)

A branch is refused where what follows in the graph of the ``If``, and so runs whenever the ``If`` does, contradicts the
operator's own rule of types and shapes. The original gives no answer then; what it does answer stays as it is.

onnxscript's optimizer settles some of these for another reason: it takes the rank that a value has inside one branch
for its rank everywhere, which need not be so.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import onnx
import onnx_ir as ir
from onnx_ir.passes.common import NameFixPass, RemoveUnusedNodesPass

from optim_plugins.ort.graph.inferred_shapes import infer_shapes
from optim_plugins.ort.graph.known_values import small_constant
from optim_plugins.ort.prepare.constant_branches import inline_constant_branches
from optim_plugins.ort.prepare.fold_constants import fold_constants

_STANDARD = ("", "ai.onnx")
_WITH_GRAPHS = frozenset(("If", "Loop", "Scan"))

_MOST_NODES = 48
"""Of what follows an If: a refusal comes soon, in silero-vad as the twelfth. A trial of so many takes some 10 ms."""

_MOST_TRIALS = 64
"""Of one sweep over a graph."""


def settle_refused_branches(graph: ir.Model) -> int:
    """Inline the other branch where exactly one is refused; how many.

    Only where the branches give other ranks: these are the ones that an operator can tell apart.
    """
    RemoveUnusedNodesPass()(graph)  # what nobody reads is not run, and refuses nothing
    asked = [node for node in graph.graph.all_nodes() if _differs_in_rank(node)]
    settled = 0
    for node in asked[: _MOST_TRIALS // 2]:
        refused = [_is_refused(graph, node, taken) for taken in (True, False)]
        if refused.count(True) == 1:
            _set_condition(node, not refused[0])
            settled += 1
    if settled:
        inline_constant_branches(graph)
        infer_shapes(graph)
    return settled


def _differs_in_rank(node: ir.Node) -> bool:
    if node.op_type != "If" or node.domain not in _STANDARD or not isinstance(node.graph, ir.Graph):
        return False
    then, other = (node.attributes.get_graph(name) for name in ("then_branch", "else_branch"))
    if then is None or other is None or len(then.outputs) != len(other.outputs):
        return False
    return any(
        one.shape is not None and two.shape is not None and one.shape.rank() != two.shape.rank()
        for one, two in zip(then.outputs, other.outputs, strict=True)
    )


def _set_condition(node: ir.Node, taken: bool) -> None:
    assert node.graph is not None
    constant = ir.node("Constant", [], {"value": ir.tensor(np.array(taken))})
    constant.outputs[0].name = f"{node.outputs[0].name}_branch_taken"
    node.graph.insert_before(node, constant)
    node.replace_input_with(0, constant.outputs[0])


def _is_refused(graph: ir.Model, node: ir.Node, taken: bool) -> bool:
    """Whether what follows an If contradicts itself when this branch is taken."""
    trial, asked = _cut_out(graph, node)
    _set_condition(asked, taken)
    try:
        inline_constant_branches(trial)
        infer_shapes(trial, strict=False)
        fold_constants(trial, strict=False)
    except Exception:  # onnxscript folds whatever there is; a part that it stumbles over tells nothing
        return False
    return any(_contradicts(one, trial) for one in trial.graph)


def _cut_out(graph: ir.Model, node: ir.Node) -> tuple[ir.Model, ir.Node]:
    """An If and what depends on it in its graph, as a model of its own: copies, that share no value."""
    nodes = _followers(node)
    made = {value for one in nodes for value in one.outputs}
    outer = [value for value in dict.fromkeys(v for one in nodes for v in _read(one)) if value not in made]
    inner = {value for one in nodes for value in _read(one)}
    view = ir.GraphView(outer, [value for one in nodes for value in one.outputs if value not in inner], nodes=nodes)
    part = view.clone()
    for value, copy in zip(outer, list(part.inputs), strict=True):
        array, copy.const_value = small_constant(value), None
        if array is not None:
            constant = ir.node("Constant", [], {"value": ir.tensor(array)})
            part.insert_before(part[0], constant)
            ir.convenience.replace_all_uses_with(copy, constant.outputs[0])
            part.inputs.remove(copy)
        elif value.const_value is not None:
            copy.shape = ir.Shape(value.const_value.shape.numpy())
            copy.type = ir.TensorType(value.const_value.dtype)
    part.opset_imports.update(graph.opset_imports)
    trial = ir.Model(part, ir_version=graph.ir_version)
    asked = next(one for one in part if one.op_type == "If")
    for value in (value for one in part.all_nodes() for value in one.outputs):
        value.shape = None  # what an exporter says of a branch need not hold when that branch is taken
    NameFixPass()(trial)
    return trial, asked


def _followers(node: ir.Node) -> list[ir.Node]:
    """The If, and the nodes of its graph that depend on it, in order."""
    assert node.graph is not None
    found, depending = [node], set(node.outputs)
    for one in itertools.islice(itertools.dropwhile(lambda other: other is not node, node.graph), 1, None):
        if len(found) == _MOST_NODES:
            break
        if not depending.isdisjoint(_read(one)):
            found.append(one)
            depending.update(one.outputs)
    return found


def _read(node: ir.Node) -> Iterator[ir.Value]:
    """The values from outside that a node reads, its branches and bodies too."""
    yield from (value for value in node.inputs if value is not None)
    for attribute in node.attributes.values():
        parts = [attribute.as_graph()] if attribute.type == ir.AttributeType.GRAPH else []
        for part in parts:
            own = {*part.inputs, *part.initializers.values()}
            for one in part:
                yield from (value for value in _read(one) if value not in own)
                own.update(one.outputs)
            yield from (value for value in part.outputs if value not in own)


def _contradicts(node: ir.Node, model: ir.Model) -> bool:
    """Whether the types and shapes that go into a standard operator are against its rule."""
    if node.domain not in _STANDARD or node.op_type in _WITH_GRAPHS:
        return False
    types, data = {}, {}
    for value in node.inputs:
        if value is None:
            continue
        if value.type is None or not value.name:
            return False
        types[value.name] = ir.serde.serialize_type(value.type)
        if value.shape is not None:
            ir.serde.serialize_shape_into(types[value.name], value.shape)
        array = small_constant(value)
        if array is not None:
            data[value.name] = ir.serde.serialize_tensor(ir.tensor(array))
    version = model.opset_imports.get("") or model.opset_imports.get("ai.onnx") or 1
    try:
        schema = onnx.defs.get_schema(node.op_type, version)
        opsets = [onnx.helper.make_opsetid("", version)]
        onnx.shape_inference.infer_node_outputs(
            schema, ir.serde.serialize_node(node), types, data, opset_imports=opsets
        )
    except onnx.shape_inference.InferenceError:
        return True
    except onnx.defs.SchemaError:
        return False
    return False
