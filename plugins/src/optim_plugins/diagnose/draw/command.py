"""``optim draw``: the graph of one model as a picture."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from optim.cli_kit import MODEL_PATH, OptimCommand, echo, json_option, print_json, read_model, write_text
from optim.errors import OptimError, unknown_name

if TYPE_CHECKING:
    import onnx_ir as ir

    from optim_plugins.diagnose.graphs.drawing import Box

_MOST = 400
"""Nodes of a drawing: browsers open a larger one slowly, and nobody finds anything in it."""


@click.command(
    cls=OptimCommand,
    examples=("optim draw model.onnx -o model.svg", "optim draw model.onnx --around /layer.0/MatMul --nodes 40"),
)
@click.argument("model", type=MODEL_PATH)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="File to write. [default: MODEL.svg]")
@click.option("--around", metavar="NODE", multiple=True, help="Draw what is near this node. Can be repeated.")
@click.option(
    "--nodes",
    "most",
    type=click.IntRange(1, 5000),
    metavar="N",
    help=f"Largest number of nodes. [default: all, up to {_MOST}; 30 with --around]",
)
@json_option
def draw(model: Path, output: Path | None, around: tuple[str, ...], most: int | None, as_json: bool) -> None:
    """Draw the graph of MODEL into an .svg file: nodes from top to bottom, with the shapes of what they make.

    Weights are not drawn. The names of what a node reads and makes show when the mouse is over it.
    """
    from optim_plugins.diagnose.graphs.drawing import graph_drawing
    from optim_plugins.drawing import standalone

    boxes, left = _boxes(model, around, most)
    path = output or Path(f"{model.stem}.svg")
    write_text(path, standalone(graph_drawing(boxes, f"the graph of {model.name}")))
    nodes = sum(box.kind != "end" for box in boxes)
    if as_json:
        print_json({"file": str(path), "nodes": nodes, "left_out": left})
    else:
        echo(f"{path}: {nodes} node{'s' if nodes != 1 else ''}" + (f", {left} left out" if left else ""))


def _boxes(model: Path, around: tuple[str, ...], most: int | None) -> tuple[list[Box], int]:
    """What is drawn, in graph order, and how many nodes are not."""
    from optim.onnx import infer_shapes_again
    from optim_plugins.diagnose.blame.neighbourhood import nearest, node_name
    from optim_plugins.diagnose.graphs.drawing import Box

    with TemporaryDirectory(prefix="optim-draw-") as store:
        graph = read_model(model, Path(store)).ir()
        infer_shapes_again(graph)
    main = graph.graph
    nodes = [node for node in main if node.op_type != "Constant"]
    names = {node_name(node): node for node in nodes}
    for name in around:
        if name not in names:
            raise unknown_name("node", name, names, fix=f"optim profile {model} lists the nodes")
    if around:
        chosen = set(nearest(nodes, [names[name] for name in around], most or 30))
    elif len(nodes) <= (most or _MOST):
        chosen = set(nodes)
    else:
        raise OptimError.usage(
            "graph-too-large",
            f"{model} has {len(nodes)} nodes, and {most or _MOST} are drawn at most",
            "a larger drawing is too crowded to read",
            f"--around {next(iter(names))} draws a part, --nodes {len(nodes)} all of it",
        )
    drawn = [node for node in nodes if node in chosen]
    read = {value.name for node in drawn for value in node.inputs if value is not None}
    ends = [
        Box("input", name, _shape(value), "end", (), (name,))
        for value in main.inputs
        if (name := value.name or "") in read
    ]
    boxes = [
        Box(
            node.op_type,
            node_name(node),
            _shape(node.outputs[0]),
            "missed" if node_name(node) in around else "",
            _names(value for value in node.inputs if value is not None),
            _names(node.outputs),
        )
        for node in drawn
    ]
    made = {name for box in boxes for name in box.makes}
    outputs = [
        Box("output", name, "", "end", (name,), ()) for value in main.outputs if (name := value.name or "") in made
    ]
    return [*ends, *boxes, *outputs], len(nodes) - len(drawn)


def _names(values: Iterable[ir.Value]) -> tuple[str, ...]:
    return tuple(value.name or "" for value in values)


def _shape(value: ir.Value) -> str:
    """The dimensions of a value; those that inference invented a name for are unknown."""
    from optim_plugins.drawing import shortened

    if value.shape is None:
        return ""
    sizes = (str(size) for size in value.shape.dims)
    return shortened(", ".join("?" if size in ("None", "") or size.startswith("unk__") else size for size in sizes), 20)
