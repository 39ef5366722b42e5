"""``optim blame``: the nodes that make a model differ from another."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from optim.cli_kit.commands import OptimCommand
from optim.cli_kit.options import MODEL_PATH, data_option, seed_option, target_option
from optim.cli_kit.output import echo, json_option, print_json, print_table
from optim.errors import ExitStatus, OptimError, some_of

if TYPE_CHECKING:
    from optim._engine.diagnosis.found import Blamed
    from optim._engine.runs.diagnosis.blame import Blame

_NAMES = 6
"""Names of nodes in a row; a path or a fused part may have hundreds. ``--json`` has all."""


@click.command(
    cls=OptimCommand,
    old_names={"--svg": "--plot"},
    examples=("optim blame model.onnx out/model.onnx --data samples.npz --plot blame.svg",),
)
@click.argument("reference", type=MODEL_PATH)
@click.argument("other", type=MODEL_PATH)
@data_option
@click.option(
    "--map",
    "pairs",
    multiple=True,
    metavar="A=B",
    help="Input or output A of REFERENCE has the name B in OTHER. Can be repeated.",
)
@target_option
@click.option(
    "--plot",
    "svg",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write a drawing of the graph around the blamed nodes to this .svg file.",
)
@seed_option("Random seed of synthesized samples.")
@json_option
def blame(
    reference: Path,
    other: Path,
    data: str | None,
    pairs: tuple[str, ...],
    target: str,
    svg: Path | None,
    seed: int,
    as_json: bool,
) -> int:
    """Name the nodes of OTHER that get the same inputs as in REFERENCE and compute something else.

    Each model is an .onnx file or a run folder.

    Exit status 0: no node is blamed; 4: at least one is.
    """
    from optim._engine.api.request import conditions_for
    from optim._engine.cli.places import require_drawing, write
    from optim.cli_kit.live_lines import progress

    names = dict(_pair(text) for text in pairs)
    if svg is not None:
        require_drawing(svg, "--plot")
    with progress() as say:
        conditions = conditions_for((reference, other), say, data=data, target=target, seed=seed)
        from optim._engine.runs.diagnosis.blame import blame_models

        found = blame_models(reference, other, conditions, names)
    if svg is not None:
        from optim._engine.drawing.svg import standalone
        from optim._engine.reports.blame_section import near_drawing

        write(svg, standalone(near_drawing(found.found.near)))
    if as_json:
        from optim.jobs.wire import to_wire

        print_json({**to_wire(found.found), "feeds": found.prepared.origin})
    else:
        _print(found)
        if svg is not None:
            echo(f"drawing: {svg}")
    return ExitStatus.NOT_HELD if found.found.blamed else ExitStatus.DELIVERED


def _pair(text: str) -> tuple[str, str]:
    ours, equals, theirs = text.partition("=")
    if not (ours and equals and theirs):
        raise OptimError.usage(
            "bad-map",
            f"--map {text} names no pair",
            "it takes a name of the first model, an equals sign and a name of the second",
            "--map input_ids=tokens",
        )
    return ours, theirs


def _print(found: Blame) -> None:
    answer = found.found
    for number, one in enumerate(answer.blamed, 1):
        echo(f"{number}. {some_of(one.nodes, _NAMES)} ({', '.join(dict.fromkeys(one.operators))})")
        for line in _lines(one):
            echo(f"   {line}")
    drifts = [[name, _number(gap)] for name, gap in answer.outputs.items()]
    print_table(["output", "drift"], drifts)
    pairs = ", ".join(f"{count} by {how}" for how, count in answer.matched.items())
    echo(f"{sum(answer.matched.values())} of {answer.values} values are in both models: {pairs}")
    if answer.ambiguous:
        some = some_of(tuple(answer.ambiguous), _NAMES)
        echo(f"ambiguous: {len(answer.ambiguous)} of them are like several of the reference: {some}")
    if not answer.blamed and (grows := answer.steepest) is not None:
        echo(f"the error grows most at {grows.node} ({grows.operator}): from {grows.before:.2g} to {grows.after:.2g}")
    for note in answer.notes:
        echo(f"note: {note}")
    echo(f"feeds: {found.prepared.origin}")
    echo(verdict(answer.drift, len(answer.blamed)))


def verdict(drift: float | None, blamed: int) -> str:
    """What was found, in a sentence."""
    if blamed:
        return f"blamed: {blamed} part{'s' if blamed > 1 else ''} of the second model"
    return f"nothing is blamed: drift is {_number(drift)}, and no node is off by more than its precision explains"


def _lines(one: Blamed) -> list[str]:
    ulp = "" if one.ulp is None else f", {one.ulp:.4g} ULP"
    lines = [
        f"given the reference's values, {one.value} is off by {_number(one.local)}{ulp}"
        f" (max abs {one.max_abs:.3g}); {one.precision} explains {one.limit:.2g}",
        *([one.problem] if one.problem else []),
        f"this alone moves the outputs by {_number(one.alone)}",
        f"in the reference: {some_of(one.reference_nodes, _NAMES) or one.reference_value}",
    ]
    if one.errors is not None:
        ours, theirs = one.errors
        lines.append(f"nearer to float64: the {one.nearer} model ({ours:.2g} reference, {theirs:.2g} other)")
    elif one.nearer:
        lines.append(f"nearer to float64: the {one.nearer} model")
    lines.append(f"path to an output: {some_of(one.path, _NAMES) or 'it is one itself'}")
    return lines


def _number(value: float | None) -> str:
    return "beyond all numbers" if value is None else f"{value:.3g}"
