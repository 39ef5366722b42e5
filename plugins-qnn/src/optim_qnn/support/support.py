"""Job: what HTP takes of a model, node by node, as it is and after ``qnn.preprocess``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from optim import Context, Model, Target
from optim.jobs import Channel

if TYPE_CHECKING:
    import onnx_ir as ir

    from optim_qnn.htp.ask_htp import Answer


@dataclass(frozen=True, slots=True)
class Request:
    """What to look at.

    Attributes:
        model: in the store.
        target: HTP, without its functions.
        feeds: folder of the user's samples, which fix dynamic shapes; None without any.
        store: folder of the store.
    """

    model: Model
    target: Target
    feeds: Path | None
    store: Path


@dataclass(frozen=True, slots=True)
class NodeSupport:
    """One node of the graph with fixed shapes and without what computes constants.

    Attributes:
        name: of the node.
        operator: its type.
        taken: whether HTP takes it as it is.
        why: why not; empty where it does.
        rewrite: what ``qnn.preprocess`` makes of it; empty for nothing.
    """

    name: str
    operator: str
    taken: bool
    why: str
    rewrite: str


@dataclass(frozen=True, slots=True)
class Support:
    """A model on HTP.

    Attributes:
        nodes: in graph order.
        left: ``operator 'name'`` of nodes that HTP does not take after ``qnn.preprocess`` either.
        prepared: how many nodes there are then.
        note: what was done to look at all, e.g. shapes that were fixed.
    """

    nodes: tuple[NodeSupport, ...]
    left: tuple[str, ...]
    prepared: int
    note: str


def run(request: Request, channel: Channel) -> Support:
    """Prepare step by step, and ask twice."""
    from optim.cli_kit import context_for
    from optim_qnn.htp.ask_htp import ask_htp
    from optim_qnn.preprocess.fold_constants import folded
    from optim_qnn.preprocess.fusions import fused
    from optim_qnn.preprocess.preprocess import fix, name_nodes
    from optim_qnn.rewrites.rules import rewrite

    with context_for(request.target, request.store, request.feeds) as context:
        graph = request.model.ir()
        notes = fix(graph, request.model, {}, context)
        name_nodes(graph)
        graph = folded(graph, context)
        name_nodes(graph)
        before = ask_htp(_written(graph, context, "as_it_is"), request.target)
        rows = [(node.name or "", node.op_type, _rule(node)) for node in graph.graph]
        channel.event("asked")
        graph, gained = fused(graph, context, layer_norm=True)
        rewrite(graph)
        name_nodes(graph)
        after = ask_htp(_written(graph, context, "prepared"), request.target)
        there = {node.name for node in graph.graph}
        nodes = tuple(
            NodeSupport(name, operator, not why, why, rule or _goes(name, there, gained))
            for name, operator, rule in rows
            for why in (_why(name, before),)
        )
        left = tuple(f"{n.op_type} '{n.name}': {why}" for n in graph.graph if (why := _why(n.name or "", after)))
        return Support(nodes, left, len(graph.graph), "; ".join(notes))


def _why(name: str, answer: Answer) -> str:
    """Why HTP does not take a node; empty where it does."""
    if answer.failure:
        return f"onnxruntime refuses the whole graph: {answer.failure}"
    return answer.left.get(name, "")


def _rule(node: ir.Node) -> str:
    from optim_qnn.rewrites.rules import rule_for

    return rule_for(node)


def _goes(name: str, there: set[str | None], gained: dict[str, int]) -> str:
    """What becomes of a node that no rule rewrites."""
    if name in there:
        return ""
    return f"part of {' or '.join(gained)}" if gained else "not needed after other rewrites"


def _written(graph: ir.Model, context: Context, name: str) -> Path:
    import onnx_ir

    path = context.scratch / f"{name}.onnx"
    onnx_ir.save(graph, path, external_data=f"{name}.data")
    return path
