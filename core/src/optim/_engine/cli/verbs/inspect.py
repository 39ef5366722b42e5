"""``optim inspect``: what a model file is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from optim.cli_kit.output import echo_json, print_rich, printable

if TYPE_CHECKING:
    from rich.console import RenderableType

    from optim._engine.graphs.inspection import Inspection
    from optim.model import TensorInfo

_MOST_OPERATORS = 25


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="For machines: one JSON object.")
def inspect(model: Path, as_json: bool) -> None:
    """Show inputs, outputs, opset, operators, size, weights by dtype, and what is dynamic."""
    from optim._engine.graphs.inspection import inspect as inspect_file

    found = inspect_file(model)
    if as_json:
        echo_json(_as_json(found))
        return
    print_rich(lambda console: [console.print(part) for part in _tables(found)])


def _as_json(found: Inspection) -> str:
    import json
    from dataclasses import asdict

    return json.dumps(asdict(found), indent=2, default=str)


def _tables(found: Inspection) -> list[RenderableType]:
    from rich.table import Table

    facts = Table.grid(padding=(0, 2))
    for label, text in _facts(found):
        facts.add_row(f"[bold]{label}", text)
    interface = Table(title="Inputs and outputs", title_justify="left")
    for column in ("", "name", "dtype", "shape"):
        interface.add_column(column, overflow="fold")
    for kind, infos in (("input", found.inputs), ("output", found.outputs)):
        for info in infos:
            interface.add_row(kind, _plain(info.name), info.dtype, _plain(_shape(info)))
    return [facts, interface, _operators(found), _weights(found)]


def _facts(found: Inspection) -> list[tuple[str, str]]:
    opset = ", ".join(f"{domain} {version}" for domain, version in found.opset.items())
    size = _bytes(found.size_bytes)
    if found.data_files:
        size += f" (graph {_bytes(found.graph_bytes)}, data in {', '.join(found.data_files)})"
    facts = [
        ("model", str(found.path)),
        ("written by", found.producer or "unknown"),
        ("opset", f"{opset}; IR version {found.ir_version}"),
        ("size", size),
        ("nodes", f"{found.nodes} of {len(found.operators)} operators" + _inside(found)),
        ("dynamic", "; ".join(f"{name}: {_few(uses)}" for name, uses in found.dynamic.items()) or "nothing"),
    ]
    if found.missing_files:
        facts.append(("missing", ", ".join(found.missing_files)))
    return [(label, _plain(text)) for label, text in facts]


def _inside(found: Inspection) -> str:
    parts = [f"{found.subgraphs} subgraphs"] if found.subgraphs else []
    parts += [f"{len(found.functions)} functions"] if found.functions else []
    return f", with {' and '.join(parts)}" if parts else ""


def _operators(found: Inspection) -> RenderableType:
    from rich.table import Table

    table = Table(title="Operators", title_justify="left")
    table.add_column("operator")
    table.add_column("nodes", justify="right")
    listed = list(found.operators.items())
    for name, count in listed[:_MOST_OPERATORS]:
        table.add_row(_plain(name), str(count))
    rest = listed[_MOST_OPERATORS:]
    if rest:
        table.add_row(f"{len(rest)} more (--json lists all)", str(sum(count for _, count in rest)))
    return table


def _weights(found: Inspection) -> RenderableType:
    from rich.table import Table

    table = Table(title="Weights", title_justify="left")
    table.add_column("dtype")
    for column in ("tensors", "size"):
        table.add_column(column, justify="right")
    for group in found.weights:
        table.add_row(_plain(group.dtype), str(group.count), _bytes(group.size_bytes))
    if found.shared_weights:
        table.add_row("of these shared", str(len(found.shared_weights)), "")
    return table


def _shape(info: TensorInfo) -> str:
    if info.shape is None:
        return "unknown"
    return "[" + ", ".join("?" if size is None else str(size) for size in info.shape) + "]"


def _few(uses: tuple[str, ...]) -> str:
    return ", ".join(uses[:4]) + (f" and {len(uses) - 4} more" if len(uses) > 4 else "")


def _bytes(size: int) -> str:
    amount = float(size)
    for unit in ("B", "kB", "MB"):
        if amount < 1000:
            return f"{amount:.0f} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.2f} GB"


def _plain(text: str) -> str:
    from rich.markup import escape

    return escape(printable(text))
