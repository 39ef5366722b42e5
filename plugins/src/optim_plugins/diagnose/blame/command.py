"""``optim blame``: the nodes that make a model differ from another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

import click

import optim
from optim.cli_kit import (
    MODEL_PATH,
    OptimCommand,
    data_option,
    echo,
    json_option,
    print_json,
    print_table,
    seed_option,
    target_option,
)
from optim.errors import ExitStatus, OptimError, some_of

if TYPE_CHECKING:
    from optim import Lab
    from optim.model import Model
    from optim_plugins.diagnose.blame.blame_job import Answer
    from optim_plugins.diagnose.blame.found import Blamed

_NAMES = 6
"""Names of nodes in a row; a path or a fused part may have hundreds. ``--json`` has all."""


@click.command(
    cls=OptimCommand, examples=("optim blame model.onnx out/model.onnx --data samples.npz --plot blame.svg",)
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
    from optim.cli_kit import progress, require_drawing, write_text

    names = dict(_pair(text) for text in pairs)
    if svg is not None:
        require_drawing(svg, "--plot")
    with progress() as say, optim.lab(reference, data=data, target=target, seed=seed, beside=[other], say=say) as lab:
        found = blame_models(lab, other, names)
    if svg is not None:
        from optim_plugins.diagnose.blame.section import near_drawing
        from optim_plugins.drawing import standalone

        write_text(svg, standalone(near_drawing(found.near)))
    if as_json:
        from optim.jobs import to_wire

        print_json({**to_wire(found), "feeds": lab.origin})
    else:
        _print(found, lab.origin)
        if svg is not None:
            echo(f"drawing: {svg}")
    return ExitStatus.NOT_HELD if found.blamed else ExitStatus.DELIVERED


def blame_models(lab: Lab, other: Path, names: Mapping[str, str]) -> Answer:
    """Find the nodes of ``other`` that are given what the reference's are and make something else.

    Args:
        lab: of the reference.
        other: an ``.onnx`` file or a run folder.
        names: of inputs and outputs of ``other`` by those of the reference, where they differ.

    Raises:
        OptimError: interface-differs, no-common-tensor; a model or the feeds cannot be used.
    """
    from optim_plugins.diagnose.blame import blame_job

    first, second = lab.original, lab.model(other, renamed=True)
    known = _interface(first.model, second.model, names)
    request = blame_job.Request(first.model, second.model, lab.setup, known, lab.setup.tolerance)
    try:
        found = lab.need(blame_job.__name__, request, blame_job.Answer, "blame")
    except OptimError as error:
        files = {one.model.path.name: one.name for one in (first, second)}
        raise error.naming(files) from error
    return replace(found, notes=(*found.notes, *lab.notes_on((first, second))))


def _interface(reference: Model, other: Model, names: Mapping[str, str]) -> dict[str, str]:
    """Names of inputs and outputs of the other model by the reference's.

    Raises:
        OptimError[interface-differs]: one is in one model only.
        OptimError[bad-map]: a name that was given is in neither the inputs nor the outputs of its model.
    """
    _require_there(names.keys(), reference, "first")
    _require_there(names.values(), other, "second")
    for kind, ours, theirs in (("input", reference.inputs, other.inputs), ("output", reference.outputs, other.outputs)):
        have, wanted = {info.name for info in theirs}, {info.name for info in ours}
        mapped = {names.get(name, name) for name in wanted}
        missing = sorted(have - mapped) if kind == "input" else sorted(mapped - have)
        if missing:
            free = {name for name in wanted if names.get(name, name) not in have} if kind == "input" else have - mapped
            near = get_close_matches(missing[0], sorted(free), 1, 0.0)
            pair = (*near, missing[0])
            fix = f"--map {'='.join(pair if kind == 'input' else pair[::-1])}"
            raise OptimError(
                "interface-differs",
                f"the models have different {kind}s",
                f"the first has {', '.join(sorted(wanted))}; the second has {', '.join(sorted(have))}",
                fix if near else f"'{missing[0]}' is in one model only: give two models with the same {kind}s",
                status=ExitStatus.BAD_INPUT,
            )
    return dict(names)


def _require_there(names: Iterable[str], model: Model, which: str) -> None:
    there = sorted(info.name for info in (*model.inputs, *model.outputs))
    for name in names:
        if name not in there:
            raise OptimError.usage(
                "bad-map",
                f"--map names '{name}', and the {which} model has no such input or output",
                f"it has {', '.join(there)}",
                f"name {get_close_matches(name, there, 1, 0.0)[0]}, or another of these",
            )


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


def _print(answer: Answer, origin: str) -> None:
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
    echo(f"samples: {origin}")
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
        *([f"PyTorch module: {some_of(one.modules, _NAMES)}"] if one.modules else []),
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
