"""``optim sensitivity``: which nodes of a model cost how much drift in another type."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from optim.cli_kit.commands import OptimCommand
from optim.cli_kit.names import CONVERSION_NAME
from optim.cli_kit.options import MODEL_PATH, SECONDS, data_option, seed_option, target_option
from optim.cli_kit.output import echo, json_option, print_json, print_table

if TYPE_CHECKING:
    from optim._engine.diagnosis.measure_job import NodeCost
    from optim._engine.reports.sensitivity_plot import Sensitivity

_BAR = 20


@click.command(
    cls=OptimCommand, examples=("optim sensitivity model.onnx --as int8 --data samples.npz --plot int8.svg",)
)
@click.argument("model", type=MODEL_PATH)
@click.option(
    "--as",
    "wanted",
    required=True,
    type=CONVERSION_NAME,
    metavar="TYPE|PASS[:k=v,...]",
    help="Type to convert to (int8, float16, ...), or a lossy pass with its options.",
)
@data_option
@target_option
@click.option(
    "--seconds",
    type=SECONDS,
    default=30.0,
    show_default=True,
    help="Time limit, in seconds. If it is short, optim measures neighbours together.",
)
@click.option(
    "--exact", is_flag=True, help="Apply the pass for every node instead of estimating its cost by replay. Slower."
)
@click.option(
    "--top", type=click.IntRange(min=1), default=20, show_default=True, metavar="N", help="Number of rows to print."
)
@click.option("--plot", type=click.Path(path_type=Path, dir_okay=False), help="Write a plot to this .svg file.")
@seed_option("Random seed of synthesized samples.")
@json_option
def sensitivity(
    model: Path,
    wanted: str,
    data: str | None,
    target: str,
    seconds: float,
    exact: bool,
    top: int,
    plot: Path | None,
    seed: int,
    as_json: bool,
) -> None:
    """Show how much drift each node of MODEL costs if optim converts this node alone.

    drift alone: at the outputs of the model; own error: at the outputs of the node; share: of the cost of all nodes,
    which add up in squares; work: of all multiplications. The repair of a run uses the same figures.
    """
    from optim._engine.api.request import conditions_for
    from optim._engine.cli.places import require_drawing, write
    from optim._engine.cli.request import parse_named
    from optim.cli_kit.live_lines import progress

    if plot is not None:
        require_drawing(plot, "--plot")
    asked = parse_named(wanted)
    with progress() as say:
        conditions = conditions_for([model], say, data=data, target=target, seed=seed)
        from optim._engine.runs.diagnosis.sensitivity import measure_sensitivity

        found = measure_sensitivity(model, asked, conditions, seconds=seconds, exact=exact)
    if plot is not None:
        from optim._engine.reports.sensitivity_plot import draw

        write(plot, draw(found, model.name))
    if as_json:
        print_json(_as_fields(found))
    else:
        _print(found, top)
        if plot is not None:
            echo(f"plot: {plot}")


def _print(found: Sensitivity, top: int) -> None:
    nodes = found.found.nodes
    most = max((node.share for node in nodes), default=1.0) or 1.0
    rows = [
        [
            _named(node),
            ", ".join(node.operators),
            _number(node.drift),
            "#" * round(_BAR * node.share / most),
            f"{node.share:.1%}" if math.isfinite(node.drift) else "",
            _number(node.local),
            "" if node.work is None else f"{node.work:.1%}",
        ]
        for node in nodes[:top]
    ]
    print_table(["node", "operator", "drift alone", "", "share", "own error", "work"], rows)
    if len(nodes) > top:
        echo(f"and {len(nodes) - top} more: --top {len(nodes)}")
    how = "estimated by replaying each node" if found.found.estimated else "measured by applying the pass"
    echo(f"\n{found.pass_name}: drift {_number(found.found.whole)} with every node converted; the rest {how}")
    print_table(["left in float", "drift"], [[str(count), _number(drift)] for count, drift in _some(found.found.curve)])
    if found.found.note:
        echo(found.found.note)
    echo(f"feeds: {found.prepared.origin}, {found.prepared.available} samples")


def _some(curve: tuple[tuple[int, float], ...]) -> list[tuple[int, float]]:
    """At most ten points of the curve, the first and the last among them."""
    step = max(1, math.ceil((len(curve) - 1) / 9))
    return [point for place, point in enumerate(curve) if place % step == 0 or place == len(curve) - 1]


def _named(node: NodeCost) -> str:
    return node.names[0] if len(node.names) == 1 else f"{node.names[0]} to {node.names[-1]} ({len(node.names)} nodes)"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}" if math.isfinite(value) else "overflows"


def _as_fields(found: Sensitivity) -> dict[str, Any]:
    """As JSON; a drift of null is infinite."""
    from optim._engine.diagnosis.found import finite

    answer = found.found
    return {
        "pass": found.pass_name,
        "options": found.options,
        "estimated": answer.estimated,
        "note": answer.note,
        "drift": finite(answer.whole),
        "ground": finite(answer.ground),
        "nodes": [
            {
                "names": list(node.names),
                "operators": list(node.operators),
                "drift": finite(node.drift),
                "overflows": math.isinf(node.drift),
                "share": node.share,
                "own_error": finite(node.local),
                "work": node.work,
            }
            for node in answer.nodes
        ],
        "curve": [{"left_in_float": count, "drift": finite(drift)} for count, drift in answer.curve],
        "feeds": {"origin": found.prepared.origin, "samples": found.prepared.available},
    }
