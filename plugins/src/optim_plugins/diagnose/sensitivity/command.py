"""``optim sensitivity``: which nodes of a model cost how much drift in another type."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import optim
from optim.cli_kit import (
    CONVERSION_NAME,
    MODEL_PATH,
    SECONDS,
    OptimCommand,
    data_option,
    echo,
    json_option,
    print_json,
    print_table,
    seed_option,
    target_option,
)
from optim.errors import OptimError, unknown_name

if TYPE_CHECKING:
    from optim import Lab, Pass
    from optim.laboratory import NodeSensitivity
    from optim_plugins.diagnose.sensitivity.plot import MeasuredPass

_BAR = 20

_NOT_FOR_THIS_MODEL = ("not-applicable", "nothing-to-measure")
"""The next pass that makes the type may have something to convert."""


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
    from optim.cli_kit import progress, require_drawing, write_text
    from optim.options import written_options

    if plot is not None:
        require_drawing(plot, "--plot")
    name, colon, written = wanted.partition(":")
    options = written_options(name, written, example=f'--as "{name}:per_channel=true"') if colon else {}
    with progress() as say, optim.lab(model, data=data, target=target, seed=seed, say=say) as lab:
        found = measure_sensitivity(lab, name, options, seconds=seconds, exact=exact)
    if plot is not None:
        from optim_plugins.diagnose.sensitivity.plot import draw

        write_text(plot, draw(found, model.name))
    if as_json:
        print_json(_as_fields(found))
    else:
        _print(found, top)
        if plot is not None:
            echo(f"plot: {plot}")


def measure_sensitivity(
    lab: Lab, wanted: str, options: Mapping[str, Any], *, seconds: float = 30.0, exact: bool = False
) -> MeasuredPass:
    """Measure what a pass costs at every node that it can leave alone.

    Args:
        lab: of the model.
        wanted: a pass by name, or a type (``int8``): the first pass that makes it and can do something for the model.
        options: other than its defaults.
        seconds: about how long.
        exact: measure by applying the pass, instead of estimating.

    Raises:
        OptimError: unknown-type, unknown-option, not-lossy, not-applicable, nothing-to-measure.
    """
    from optim_plugins.diagnose.sensitivity.plot import MeasuredPass

    refusals: list[tuple[str, OptimError]] = []
    for one, chosen in _with_options(_find(wanted, lab.passes()), options):
        try:
            found = lab.sensitivity(one.name, chosen, seconds=seconds, exact=exact)
        except OptimError as error:
            if error.reference not in _NOT_FOR_THIS_MODEL:
                raise
            refusals.append((one.name, error))
        else:
            return MeasuredPass(one.name, chosen, found, lab.origin, lab.available)
    if len(refusals) == 1:
        raise refusals[0][1]
    raise OptimError(
        "not-applicable",
        f"no pass that makes {wanted} can do anything for {Path(lab.original.name).name} here",
        "\n".join(f"{name}: {error.cause}" for name, error in refusals),
        "optim passes list",
    )


def _with_options(passes: list[type[Pass]], options: Mapping[str, Any]) -> list[tuple[type[Pass], dict[str, Any]]]:
    """The passes that have the options asked for, with them.

    Raises:
        OptimError: no pass has them; what the first says.
    """
    from optim.jobs import to_wire
    from optim.options import parse_options

    found, errors = [], []
    for one in passes:
        try:
            found.append((one, to_wire(parse_options(one, dict(options)))))
        except OptimError as error:
            errors.append(error)
    if not found:
        raise errors[0]
    return found


def _find(wanted: str, passes: Sequence[type[Pass]]) -> list[type[Pass]]:
    """The pass of this name, or those that make this type: of the plugin that runs the target first."""
    by_type: dict[str, list[type[Pass]]] = {}
    for one in passes:
        if one.makes:
            by_type.setdefault(one.makes, []).append(one)
    found = by_type.get(wanted) or [one for one in passes if one.name == wanted]
    if not found:
        lossy = [one.name for one in passes if one.lossy]
        raise unknown_name("type", wanted, [*by_type, *lossy], fix="optim passes list")
    if not found[0].lossy:
        raise OptimError.usage(
            "not-lossy",
            f"{found[0].name} does not change what a model computes",
            "there is no drift to measure",
            f"name one of {', '.join(by_type) or 'the lossy passes'}",
        )
    return found


def _print(found: MeasuredPass, top: int) -> None:
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
    echo(f"samples: {found.origin}, {found.available} samples")


def _some(curve: tuple[tuple[int, float], ...]) -> list[tuple[int, float]]:
    """At most ten points of the curve, the first and the last among them."""
    step = max(1, math.ceil((len(curve) - 1) / 9))
    return [point for place, point in enumerate(curve) if place % step == 0 or place == len(curve) - 1]


def _named(node: NodeSensitivity) -> str:
    return node.names[0] if len(node.names) == 1 else f"{node.names[0]} to {node.names[-1]} ({len(node.names)} nodes)"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}" if math.isfinite(value) else "overflows"


def _as_fields(found: MeasuredPass) -> dict[str, Any]:
    """As JSON; a drift of null is infinite."""
    from optim_plugins.diagnose.blame.found import finite

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
        "feeds": {"origin": found.origin, "samples": found.available},
    }
