"""An If in place of which the nodes of one of its branches stand, so that what is inside is seen node by node.

Before::

    x -> If(c) -> y         then_branch: x -> A -> a          else_branch: x -> B -> b

After, where c is true::

    x -> A -> a -> Identity -> y

Names inside stay as they are, unless something around has them.
"""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from optim.onnx import UniqueNames


def open_branches(graph: ir.Model, taken: Mapping[str, bool]) -> None:
    """Put branches in place of Ifs, inner ones after those around them; changed in place.

    Args:
        graph: of which Ifs of the main graph are replaced, and those that come there by it.
        taken: whether the first branch is taken, by the name of the If's first output.
    """
    while found := [node for node in branchings(graph) if node.outputs[0].name in taken]:
        for node in found:
            _open(graph, node, taken[node.outputs[0].name or ""])


def branchings(graph: ir.Model) -> list[ir.Node]:
    """The Ifs of the main graph."""
    return [node for node in graph.graph if node.op_type == "If" and node.domain == "" and node.inputs[0] is not None]


def bodies(node: ir.Node) -> list[ir.Graph]:
    """The branches of an If, and the body of a loop; none of any other node."""
    found = [one for one in node.attributes.values() if one.type == ir.AttributeType.GRAPH]
    lists = [one for one in node.attributes.values() if one.type == ir.AttributeType.GRAPHS]
    return [*(one.as_graph() for one in found), *(body for one in lists for body in one.as_graphs())]


def read_nothing(node: ir.Node) -> None:
    """Take its inputs from a node that goes, so that what it read has one reader less."""
    for place in range(len(node.inputs)):
        node.replace_input_with(place, None)


def _open(graph: ir.Model, node: ir.Node, taken: bool) -> None:
    body = node.attributes["then_branch" if taken else "else_branch"].as_graph()
    made, inner, weights = list(body.outputs), list(body), list(body.initializers.values())
    body.outputs.clear()
    body.initializers.clear()
    body.remove(inner)
    other = node.attributes["else_branch" if taken else "then_branch"].as_graph()
    for unread in other.all_nodes():
        read_nothing(unread)
    node.attributes.clear()  # names of the other branch are free now
    _rename(graph, inner, weights)
    main = graph.graph
    for weight in weights:
        main.register_initializer(weight)
    ends = []
    for place, (inside, outside) in enumerate(zip(made, node.outputs, strict=True)):
        end = ir.node("Identity", [inside], name=f"{node.name or outside.name}_output_{place}")
        end.outputs[0].type, end.outputs[0].shape = outside.type or inside.type, outside.shape
        end.outputs[0].name, outside.name = outside.name, None
        ends.append(end)
    main.insert_before(node, [*inner, *ends])
    new = [end.outputs[0] for end in ends]
    ir.convenience.replace_all_uses_with(node.outputs, new, replace_graph_outputs=True)
    main.remove(node, safe=True)


def _rename(graph: ir.Model, inner: list[ir.Node], weights: list[ir.Value]) -> None:
    names = UniqueNames(graph)
    for value in (*weights, *(value for node in inner for value in node.outputs)):
        if value.name:
            value.name = names.take(value.name)
    called = {node.name for node in graph.graph.all_nodes()}
    for node in inner:
        if node.name in called:
            node.name = next(name for i in range(2, len(called) + 3) if (name := f"{node.name}_{i}") not in called)
        called.add(node.name)
