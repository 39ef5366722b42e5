"""Values inside a model on samples, one sample at a time, so that no more than one sample's is in memory.

Before::

    x -> A -> a -> B -> b -> C -> y

After::

    x -> A -> a -> B -> b -> C -> y          outputs a, b
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import onnx_ir as ir

from optim import Context, Model
from optim.arrays import Array
from optim.onnx import discard_measured, open_session, save_for_measuring

MAPPED = {"session.disable_prepacking": "1"}
"""Weights are read where they are mapped: of 803 MB of floats, 32 MB were held beside the file in place of 689."""


def capture(graph: ir.Model, names: Collection[str], model: Model, context: Context) -> Iterator[dict[str, Array]]:
    """What values of the main graph are on each sample.

    Args:
        graph: a graph with the inputs of ``model``; its outputs are changed in place.
        names: of values or inputs; unknown names are left out.
        model: tells which inputs there are, and with which settings it is opened.
        context: gives the samples.

    Yields:
        The values by name, for each sample that the graph runs on.

    Raises:
        OptimError[session-failed]: onnxruntime does not open the graph.
    """
    inputs = {value.name for value in model.inputs} | {one.info.name for one in model.adapters}
    made = {value.name: value for node in graph.graph for value in node.outputs}
    wanted = [made[name] for name in names if name in made]
    graph.graph.outputs.clear()
    graph.graph.outputs.extend(wanted)
    written = save_for_measuring(graph, context.store)
    try:
        session = open_session(written.path, model.session, extra_config=MAPPED)
        outputs = [value.name or "" for value in wanted]
        for feeds in context.samples():
            given = {name: array for name, array in feeds.items() if name in inputs}
            values = dict(zip(outputs, session.run(outputs, given) if outputs else (), strict=True))
            yield {**{name: array for name, array in given.items() if name in names}, **values}
    finally:
        discard_measured(written)
