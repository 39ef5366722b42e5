"""Names of nodes that a user wrote, looked up in a graph."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from optim.errors import OptimError
from optim.model import Model


def unknown_nodes(model: Model, names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Those of the names that no node of the graph has, each with what comes near.

    A node without a name is called by its first output.
    """
    known = [node.name or (node.outputs[0].name if node.outputs else "") or "" for node in model.ir().graph.all_nodes()]
    unknown = dict.fromkeys(name for name in names if name not in known)
    return {name: tuple(difflib.get_close_matches(name, known, n=3, cutoff=0.5)) for name in unknown}


def no_such_node(name: str, near: Iterable[str], pass_name: str, looked_at: str) -> OptimError:
    """The error for a name in ``keep`` that no node has.

    Args:
        name: what the user wrote.
        near: names that nodes have.
        pass_name: of the pass whose option it is.
        looked_at: the graphs that have none, in words.
    """
    meant = " or ".join(near)
    return OptimError.usage(
        "unknown-node",
        f"there is no node '{name}' that {pass_name} could keep",
        f"looked for in {looked_at}" + (f"; did you mean {meant}?" if meant else ""),
        f"optim sensitivity MODEL --as {pass_name} lists the nodes",
    )
