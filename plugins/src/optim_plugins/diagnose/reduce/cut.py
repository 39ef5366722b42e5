"""A model cut to the fewest nodes of which something is still true: delta debugging over the nodes of the main graph.

Half of the nodes is taken out, then a quarter, and so on to single ones, as long as what remains still shows it (Zeller
and Hildebrandt, 2002). What remaining nodes read of removed ones becomes an input, what nothing reads any more an
output; weights that nothing reads go. Where an If remains, the nodes of one of its branches are put in its place if
that shows it too, and all begins anew.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from functools import partial

import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass, ShapeInferencePass

from optim_plugins.diagnose.graphs.branches import bodies, branchings, open_branches, read_nothing
from optim_plugins.diagnose.graphs.cutting import read_by

Fresh = Callable[[], ir.Model]
"""A fresh graph of the model each time."""

Shows = Callable[[ir.Model], bool]


def reduce_model(fresh: Fresh, shows: Shows, attempts: int) -> tuple[ir.Model, int]:
    """The smallest part that was found, and how many parts were tried.

    Args:
        fresh: the model; it shows what is looked for.
        shows: whether a part does too.
        attempts: parts to try, at most.
    """
    tried = 0
    while True:
        kept, more = _fewest(fresh, shows, attempts - tried)
        smaller, tried = partial(_part_or_all, fresh, kept), tried + more
        opened, more = _one_opened(smaller, shows, attempts - tried)
        tried += more
        if opened is None:
            return smaller(), tried
        fresh = opened


def _fewest(fresh: Fresh, shows: Shows, attempts: int) -> tuple[list[int], int]:
    """Places of the nodes that are left, and how many parts were tried."""
    count = len(_typed(fresh).graph)
    kept, tried = list(range(count)), 0
    size = max(1, count // 2)
    while tried < attempts:
        before = len(kept)
        place = 0
        while place < len(kept) and tried < attempts:
            less = kept[:place] + kept[place + size :]
            part = _part(fresh, less) if less else None
            tried += part is not None
            if part is not None and shows(part):
                kept = less
            else:
                place += size
        if size == 1 and len(kept) == before:
            break
        size = max(1, size // 2) if len(kept) == before or size > len(kept) else size
    return kept, tried


def _one_opened(fresh: Fresh, shows: Shows, attempts: int) -> tuple[Fresh | None, int]:
    """The graph with a branch in place of its If, if that shows it too, and how many were tried."""
    names = [node.outputs[0].name or "" for node in branchings(fresh())]
    choices = [(name, taken) for name in names for taken in (True, False)][:attempts]
    for tried, (name, taken) in enumerate(choices, 1):
        opened = partial(_with_branch, fresh, name, taken)
        if shows(opened()):
            return opened, tried
    return None, len(choices)


def _part_or_all(fresh: Fresh, kept: Collection[int]) -> ir.Model:
    found = _part(fresh, kept)
    return found if found is not None else _typed(fresh)


def _with_branch(fresh: Fresh, name: str, taken: bool) -> ir.Model:
    graph = fresh()
    open_branches(graph, {name: taken})
    return graph


def _typed(fresh: Fresh) -> ir.Model:
    """A fresh graph with the types that can be inferred."""
    graph = fresh()
    log = logging.getLogger("onnx_ir")
    level = log.level
    log.setLevel(logging.CRITICAL)  # it prints a traceback where types do not fit
    try:
        return ShapeInferencePass()(graph).model
    except Exception:  # what cannot be inferred cannot be cut there
        return graph
    finally:
        log.setLevel(level)


def _part(fresh: Fresh, kept: Collection[int]) -> ir.Model | None:
    """The graph with these nodes alone; None where a value that would be an input has no known type."""
    graph = _typed(fresh)
    main = graph.graph
    nodes = list(main)
    staying = {nodes[place] for place in kept}
    removed = [node for node in nodes if node not in staying]
    read = {value for node in staying for value in read_by(node)}
    for value in [value for node in removed for value in node.outputs if value in read]:
        if value.type is None:
            return None
        given = ir.Value(name=value.name, type=value.type, shape=value.shape)
        ir.convenience.replace_all_uses_with(value, given)
        main.inputs.append(given)
        value.name = None
    ends = [value for value in main.outputs if value.producer() in staying]
    main.outputs.clear()
    read = {value for node in staying for value in read_by(node)}
    made = [value for node in nodes if node in staying for value in node.outputs if value.name]
    main.outputs.extend(dict.fromkeys([*ends, *(value for value in made if value not in read and value not in ends)]))
    for node in removed:
        read_nothing(node)
        for body in bodies(node):
            for inner in body.all_nodes():
                read_nothing(inner)
    main.remove(removed, safe=False)
    RemoveUnusedNodesPass()(graph)
    for value in [value for value in main.inputs if not value.uses() and not value.is_initializer()]:
        main.inputs.remove(value)
    return graph if main.outputs else None
