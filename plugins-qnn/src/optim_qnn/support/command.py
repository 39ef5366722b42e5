"""The verb ``optim qnn``: what HTP takes of a model, and several compiled models in one file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from optim.cli_kit import TARGET_NAME, echo, json_option, print_json, print_table

if TYPE_CHECKING:
    from optim_qnn.support.support import Support


@click.group
def qnn() -> None:
    """What is particular to Qualcomm's QNN."""


@qnn.command
@click.argument("model", type=click.Path(path_type=Path))
@click.option("--data", metavar="FEEDS", help="Samples whose shapes a dynamic model is looked at with.")
@click.option("--target", type=TARGET_NAME, default="qnn", show_default=True, help="E.g. qnn:soc=sm8650.")
@click.option("--left", is_flag=True, help="Only the nodes that HTP does not take.")
@json_option
def support(model: Path, data: str | None, target: str, left: bool, as_json: bool) -> int:
    """Show node by node what HTP takes of MODEL, what falls to the CPU and why, and what rewrite there is.

    The graph is looked at with fixed shapes and without what computes constants; floats are computed in float16.
    Exit status 0: HTP takes every node once qnn.preprocess has run; 4: it does not.
    """
    from optim import ExitStatus
    from optim.cli_kit import progress
    from optim.jobs import to_wire
    from optim_qnn.support.look_at_file import look

    with progress() as say:
        found = look(model, target, data, say)
    if as_json:
        print_json(to_wire(found))
    else:
        _print(found, left)
    return ExitStatus.NOT_HELD if found.left else ExitStatus.DELIVERED


@qnn.command
@click.argument("models", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="A new folder.")
@click.option("--target", type=TARGET_NAME, default="qnn", show_default=True, help="E.g. qnn:soc=sm8650.")
@json_option
def share(models: tuple[Path, ...], output: Path, target: str, as_json: bool) -> None:
    """Compile MODELS into one file, in which weights that they have in common lie once.

    Each is an .onnx file or a run folder that is quantized or in float16, and not compiled. On a device each is opened
    anew afterwards, and must give bit for bit what it gave before; the simulator loads no file of several graphs.
    """
    from optim.cli_kit import progress
    from optim.jobs import to_wire
    from optim_qnn.compile.share_weights import share as compile_together
    from optim_qnn.support.look_at_file import require_qnn

    with progress() as say:
        found = compile_together(models, output, require_qnn(target), say)
    if as_json:
        print_json(to_wire(found))
        return
    files = ", ".join(found.files.values())
    echo(f"{files} and {found.binary} in {output}: {found.size_bytes / 1e6:.1f} MB in all")
    if found.samples:
        echo(f"each gives the same outputs as before on {found.samples} samples, bit for bit")
    else:
        echo("nothing was run: the simulator loads no file of several graphs. Run them on a device first")


def _print(found: Support, only_left: bool) -> None:
    shown = [node for node in found.nodes if not (only_left and node.taken)]
    rows = [
        [node.name, node.operator, "HTP" if node.taken else "CPU", node.why, "" if node.taken else node.rewrite]
        for node in shown
    ]
    if rows:
        print_table(["node", "operator", "runs on", "why not on HTP", "qnn.preprocess makes of it"], rows)
    if found.note:
        echo(found.note)
    taken = sum(node.taken for node in found.nodes)
    echo(f"as it is: HTP takes {taken} of {len(found.nodes)} nodes")
    echo(f"after qnn.preprocess: HTP takes {found.prepared - len(found.left)} of {found.prepared} nodes")
    for text in found.left:
        echo(f"  left to the CPU: {text}")
