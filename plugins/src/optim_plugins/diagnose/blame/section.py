"""The blame of a step as the report has it, and the drawing of ``optim blame --plot``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from optim.after_run import Section
from optim.cli_kit import NOTHING, printable
from optim.errors import some_of
from optim.jobs import to_wire
from optim_plugins.diagnose.blame.plots import growth_plot, histogram_plot
from optim_plugins.diagnose.graphs.drawing import Box, graph_drawing
from optim_plugins.drawing import NARROW, WIDE

if TYPE_CHECKING:
    from optim_plugins.diagnose.blame.blame_job import Answer
    from optim_plugins.diagnose.blame.found import Blamed, Neighbourhood

_NAMES = 4
"""Names of nodes in a sentence: a fused part may have dozens."""

_MOST_PARTS = 3
"""Of a report; ``optim blame`` names all."""


def details(found: Answer) -> dict[str, Any]:
    """The ``blame`` of a step in ``report.json``."""
    return {
        "blamed": to_wire(found.blamed[:_MOST_PARTS]),
        "drift": found.drift,
        "matched": sum(found.matched.values()),
        "values": found.values,
        "growth": to_wire(found.growth),
        "notes": list(found.notes),
        "near": to_wire(found.near),
    }


def section(found: Answer, pass_name: str, on: Sequence[str]) -> Section:
    """The blame of a step in ``report.html``.

    Args:
        found: what was found.
        pass_name: of the step.
        on: the passes before it.
    """
    return Section(f"Nodes to blame in {pass_name}", "\n".join(_body(found, on)))


def _body(found: Answer, on: Sequence[str]) -> Iterator[str]:
    parts = found.blamed[:_MOST_PARTS]
    marked = {one.value for one in parts}
    if parts:
        count = "one part" if len(parts) == 1 else f"{len(parts)} parts"
        summary = f"{count} of its graph makes the outputs {_moved(found.drift)}"
    else:
        summary = f"no node is off by more than its precision explains; together they {_moved(found.drift)}"
    after = f"After {', '.join(on)}: " if on else ""
    matched = sum(found.matched.values())
    yield f"<p>{_text(f'{after}{summary}. {matched} of {found.values} values are in both graphs.')}</p>"
    for one in parts:
        yield from _part(one)
    if growth := growth_plot(found.growth, marked, WIDE) + growth_plot(found.growth, marked, NARROW):
        red = "; blamed nodes are red" if parts else ""
        yield _small(f"How the error grows: ||other - original|| / ||original|| of every value in both graphs{red}.")
        yield _scrolled(growth)
    if parts:
        left = f"; {found.near.left_out} others are not shown" if found.near.left_out else ""
        yield _small(f"The nodes around it, with the error of the output of each{left}.")
        yield _scrolled(near_drawing(found.near))
    if found.notes:
        yield f'<ul class="small">{_items(found.notes)}</ul>'


def near_drawing(near: Neighbourhood) -> str:
    """The nodes around what is blamed, from top to bottom; the error of the output of each stands in its box."""
    ends = [Box("input", name, "", "end", (), (name,)) for name in near.inputs]
    nodes = []
    for node in near.nodes:
        error = "lost" if node.lost else "" if node.error is None else f"{node.error:.2g}"
        nodes.append(Box(node.operator, node.name, error, "missed" if node.blamed else "", node.reads, node.makes))
    outputs = [Box("output", name, "", "end", (name,), ()) for name in near.outputs]
    return graph_drawing([*ends, *nodes, *outputs], "the graph around the blamed nodes")


def _part(one: Blamed) -> Iterator[str]:
    ulp = "" if one.ulp is None else f", {one.ulp:.4g} ULP"
    lines = [
        f"given the values from before the step, {one.value} is {_off(one.local)}{ulp}; "
        f"{one.precision} explains {_figure(one.limit)}",
        *([one.problem] if one.problem else []),
        f"this alone makes the outputs {_moved(one.alone)}",
    ]
    if one.reference_nodes:
        lines.append(f"before the step {some_of(one.reference_nodes, _NAMES)} made it")
    if one.nearer:
        lines.append(f"nearer to float64: the model {'before' if one.nearer == 'reference' else 'after'} the step")
    if one.modules:
        lines.append(f"PyTorch module: {some_of(one.modules, _NAMES)}")
    operators = ", ".join(dict.fromkeys(one.operators))
    yield f'<p><code class="name">{_text(f"{some_of(one.nodes, _NAMES)} ({operators})")}</code></p>'
    yield f"<ul>{_items(lines)}</ul>"
    if one.counts:
        yield _small(
            "Histogram of its values (square root of the counts): grey bars after the step, the line before it."
        )
        yield _scrolled(histogram_plot(one.value, one.edges, one.counts))


def _text(words: str) -> str:
    """Names of a model may hold anything."""
    return escape(printable(words))


def _items(lines: Sequence[str]) -> str:
    return "".join(f"<li>{_text(line)}</li>" for line in lines)


def _small(words: str) -> str:
    return f'<p class="small faint">{_text(words)}</p>'


def _scrolled(drawing: str) -> str:
    return f'<div class="scroll">{drawing}</div>'


def _figure(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.3g}"


def _off(error: float | None) -> str:
    return "lost" if error is None else f"off by {_figure(error)}"


def _moved(drift: float | None) -> str:
    return "lose their values" if drift is None else f"drift by {_figure(drift)}"
