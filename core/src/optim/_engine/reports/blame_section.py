"""The blame of a step as ``report.html`` shows it, and as ``optim blame --plot`` draws it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from optim._engine.drawing.errors import growth_plot, histogram_plot
from optim._engine.drawing.graph import Box, graph_drawing
from optim._engine.drawing.svg import NARROW, WIDE
from optim._engine.reports.schema import Report, StepReport
from optim._engine.reports.words import figure_text
from optim.errors import some_of

if TYPE_CHECKING:
    from markupsafe import Markup

    from optim._engine.diagnosis.found import Blamed, Neighbourhood

_NAMES = 4
"""Names of nodes in a sentence: a fused part may have dozens."""


@dataclass(frozen=True, slots=True)
class BlamedPart:
    """Nodes that are blamed, in sentences, and how the values that they make lie."""

    title: str
    lines: tuple[str, ...]
    histogram: Markup


@dataclass(frozen=True, slots=True)
class BlameSection:
    """What is to blame for one step."""

    step: StepReport
    summary: str
    parts: tuple[BlamedPart, ...]
    growth: Markup
    graph: Markup
    about_graph: str
    notes: tuple[str, ...]


def blame_sections(report: Report) -> list[BlameSection]:
    """A section for each step whose blame was looked for."""
    return [_section(step) for step in report.steps if step.blame is not None]


def near_drawing(near: Neighbourhood) -> str:
    """The nodes around what is blamed, from top to bottom; the error of the output of each stands in its box."""
    ends = [Box("input", name, "", "end", (), (name,)) for name in near.inputs]
    nodes = []
    for node in near.nodes:
        error = "lost" if node.lost else "" if node.error is None else f"{node.error:.2g}"
        nodes.append(Box(node.operator, node.name, error, "missed" if node.blamed else "", node.reads, node.makes))
    outputs = [Box("output", name, "", "end", (name,), ()) for name in near.outputs]
    return graph_drawing([*ends, *nodes, *outputs], "the graph around the blamed nodes")


def _section(step: StepReport) -> BlameSection:
    from markupsafe import Markup

    found = step.blame
    assert found is not None
    marked = {one.value for one in found.blamed}
    if found.blamed:
        count = "one part" if len(found.blamed) == 1 else f"{len(found.blamed)} parts"
        summary = f"{count} of its graph makes the outputs {_moved(found.drift)}"
    else:
        summary = f"no node is off by more than its precision explains; together they {_moved(found.drift)}"
    left = f"; {found.near.left_out} others are not shown" if found.near.left_out else ""
    return BlameSection(
        step=step,
        summary=f"{summary}. {found.matched} of {found.values} values are in both graphs.",
        parts=tuple(map(_part, found.blamed)),
        growth=Markup(growth_plot(found.growth, marked, WIDE) + growth_plot(found.growth, marked, NARROW)),
        graph=Markup(near_drawing(found.near)),
        about_graph=f"The nodes around it, with the error of the output of each{left}.",
        notes=found.notes,
    )


def _part(one: Blamed) -> BlamedPart:
    from markupsafe import Markup

    ulp = "" if one.ulp is None else f", {one.ulp:.4g} ULP"
    lines = [
        f"given the values from before the step, {one.value} is {_off(one.local)}{ulp}; "
        f"{one.precision} explains {figure_text(one.limit)}",
        *([one.problem] if one.problem else []),
        f"this alone makes the outputs {_moved(one.alone)}",
    ]
    if one.reference_nodes:
        lines.append(f"before the step {some_of(one.reference_nodes, _NAMES)} made it")
    if one.nearer:
        lines.append(f"nearer to float64: the model {'before' if one.nearer == 'reference' else 'after'} the step")
    drawn = histogram_plot(one.value, one.edges, one.counts) if one.counts else ""
    operators = ", ".join(dict.fromkeys(one.operators))
    return BlamedPart(f"{some_of(one.nodes, _NAMES)} ({operators})", tuple(lines), Markup(drawn))


def _off(error: float | None) -> str:
    return "lost" if error is None else f"off by {figure_text(error)}"


def _moved(drift: float | None) -> str:
    return "lose their values" if drift is None else f"drift by {figure_text(drift)}"
