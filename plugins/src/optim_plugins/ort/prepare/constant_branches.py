"""The branch of an ``If`` whose condition is a constant, in the place of the ``If``.

Before::

    y = If(true, then=(a -> Relu -> r), else=(...))

After::

    y = Relu(a)
"""

from __future__ import annotations

import onnx_ir as ir
from onnx_ir.passes.common import NameFixPass

from optim_plugins.ort.graph.known_values import small_constant


def inline_constant_branches(graph: ir.Model) -> int:
    """Inline in place, inner ones too; how many."""
    count = 0
    for node in list(graph.graph.all_nodes()):
        condition = small_constant(node.inputs[0]) if node.op_type == "If" and node.domain in ("", "ai.onnx") else None
        if condition is None or condition.size != 1 or node.graph is None or isinstance(node.graph, ir.Function):
            continue
        branch = node.attributes.get("then_branch" if condition.reshape(()) else "else_branch")
        if branch is None or len(branch.as_graph().outputs) != len(node.outputs):
            continue
        _inline(node, branch.as_graph(), node.graph, count)
        count += 1
    if count:
        NameFixPass()(graph)  # what two branches called the same stands side by side now
    return count


def _inline(node: ir.Node, branch: ir.Graph, place: ir.Graph, number: int) -> None:
    make_own_outputs(branch)
    given = list(branch.outputs)
    branch.outputs.clear()
    taken = {value.name for value in place.initializers.values()} | {value.name for value in place.inputs}
    for value in list(branch.initializers.values()):
        assert value.name is not None
        branch.initializers.pop(value.name)
        while value.name in taken:
            value.name = f"{value.name}_branch_{number}"
        taken.add(value.name)
        place.register_initializer(value)
    nodes = list(branch)
    branch.remove(nodes)
    place.insert_before(node, nodes)
    for old, new in zip(node.outputs, given, strict=True):
        name, new.type, new.shape = old.name, old.type or new.type, old.shape or new.shape
        old.name = f"{name}_of_if"
        new.name = name
        ir.convenience.replace_all_uses_with(old, new, replace_graph_outputs=True)
    place.remove(node, safe=True)


def make_own_outputs(graph: ir.Graph) -> int:
    """Let every output of a branch or body be a value of its own that a node of it makes; how many were not.

    It may list a value twice, or one of a graph around it, and runtimes take what then comes out from wherever it
    happens to lie.
    """
    seen: set[ir.Value] = set()
    count = 0
    for place, value in enumerate(list(graph.outputs)):
        producer = value.producer()
        if value in seen or producer is None or producer.graph is not graph:
            copy = ir.node("Identity", [value])
            made = copy.outputs[0]
            made.name, made.type, made.shape = f"{value.name}_given_{place}", value.type, value.shape
            graph.append(copy)
            graph.outputs[place] = made
            count += 1
        seen.add(value)
    return count
