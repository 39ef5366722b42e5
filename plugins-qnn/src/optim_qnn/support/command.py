"""The verb ``optim qnn``: what HTP takes of a model, and several compiled models in one file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from optim.cli_kit import TARGET_NAME, OptimCommand, echo, json_option, print_json, print_table

if TYPE_CHECKING:
    from optim_qnn.support.support import Support


@click.group
def qnn() -> None:
    """Check and compile models for Qualcomm QNN."""


@qnn.command(cls=OptimCommand, examples=("optim qnn support model.onnx --data samples.npz --only-unsupported",))
@click.argument("model", type=click.Path(path_type=Path))
@click.option("--data", metavar="SAMPLES", help="Input samples that set the shapes of a dynamic model.")
@click.option(
    "--target",
    type=TARGET_NAME,
    default="qnn",
    show_default=True,
    help="Target with its settings, e.g. qnn:soc=sm8650.",
)
@click.option("--only-unsupported", "left", is_flag=True, help="Print only the nodes that HTP does not run.")
@json_option
def support(model: Path, data: str | None, target: str, left: bool, as_json: bool) -> int:
    """Show which nodes of MODEL run on HTP, which run on the CPU, why, and what pass qnn.preprocess changes.

    The check uses fixed shapes, folds constants, and computes floats in float16.

    Exit status 0: HTP runs every node after qnn.preprocess; 4: it does not.
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


@qnn.command(cls=OptimCommand, examples=("optim qnn share prefill decode -o shared --target qnn:soc=sm8650",))
@click.argument("models", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", required=True, type=click.Path(path_type=Path), help="Folder to write; it must be new or empty."
)
@click.option(
    "--target",
    type=TARGET_NAME,
    default="qnn",
    show_default=True,
    help="Target with its settings, e.g. qnn:soc=sm8650.",
)
@json_option
def share(models: tuple[Path, ...], output: Path, target: str, as_json: bool) -> None:
    """Compile MODELS into one file that stores shared weights once.

    Each model is an .onnx file or a run folder. It must be quantized or in float16, have fixed shapes, and not be
    compiled. On a device, optim opens each model again and compares its outputs bit for bit. The simulator cannot load
    a file with several graphs.
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
        echo("optim ran nothing: the simulator cannot load a file with several graphs. Test the models on a device")


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
    echo(f"unchanged: HTP runs {taken} of {len(found.nodes)} nodes")
    echo(f"after qnn.preprocess: HTP runs {found.prepared - len(found.left)} of {found.prepared} nodes")
    for text in found.left:
        echo(f"  left to the CPU: {text}")
