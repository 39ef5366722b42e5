"""``optim outputs``: what a model computes, in a file that another machine compares with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

import optim
from optim import OptimError
from optim.cli_kit import (
    MODEL_PATH,
    OptimCommand,
    data_option,
    echo,
    json_option,
    print_json,
    progress,
    require_writable,
    seed_option,
    target_option,
)

if TYPE_CHECKING:
    from optim import Lab
    from optim_plugins.diagnose.outputs.file import About


@click.command(
    cls=OptimCommand,
    examples=("optim outputs model.onnx --data samples.npz -o ref.npz", "optim verify ref.npz out --data samples.npz"),
)
@click.argument("model", type=MODEL_PATH)
@data_option
@target_option
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    default="outputs.npz",
    show_default=True,
    help="File to write.",
)
@seed_option("Random seed of synthesized samples.")
@json_option
def outputs(model: Path, data: str | None, target: str, output: Path, seed: int, as_json: bool) -> int:
    """Run MODEL on input samples and write its outputs to a file. optim verify FILE OTHER compares with them.

    Use it if the models or runtimes to compare are on different machines. OTHER gets the same --data there.

    If MODEL is such a file, optim shows what it holds.
    """
    if model.suffix == ".npz":
        from optim_plugins.diagnose.outputs.file import StoredOutputs

        _tell(StoredOutputs.open(model).about, model, as_json=as_json)
        return 0
    if output.suffix != ".npz":
        raise OptimError.usage(
            "bad-outputs-file",
            f"cannot write outputs to {output}",
            "the name of the file must end with .npz",
            f"-o {output.with_suffix('.npz').name}",
        )
    require_writable(output)
    with progress() as say, optim.lab(model, data=data, target=target, seed=seed, say=say) as lab:
        about = store_outputs(lab, output, model.name, target)
    _tell(about, output, as_json=as_json)
    return 0


def store_outputs(lab: Lab, path: Path, name: str, target: str) -> About:
    """Write the outputs of a lab's model on all its samples, and on what a comparison runs beside them.

    Args:
        lab: of the model.
        path: of the file.
        name: of the model.
        target: that the lab is on.

    Raises:
        OptimError[outputs-no-tensor]: an output is a sequence.
    """
    from optim_plugins.diagnose.outputs.file import OutputsWriter

    lacking = [info.name for info in lab.original.model.outputs if not info.is_tensor]
    if lacking:
        raise OptimError(
            "outputs-no-tensor",
            f"the outputs of {name} cannot be stored",
            f"output '{lacking[0]}' is no tensor",
            "compare both models on one machine: optim verify MODEL OTHER",
        )
    drift = 0.0
    with OutputsWriter(path) as writer, lab.open() as session:
        for number in range(lab.available):
            lab.say(f"storing the outputs on sample {number + 1} of {lab.available}")
            feeds = lab.sample(number)
            computed = session.run(feeds)
            writer.add(feeds, computed)
            if number in lab.setup.samples:
                found = lab.compare_outputs([(feeds, lab.expected(number), computed)])
                drift = max([drift, *(one.relative_error for one in found)])
            for further in lab.probes(number):
                if not writer.has(further):
                    writer.add(further, session.run(further))
        if drift > lab.setup.tolerance:
            lab.say(f"note: {target} drifts by {drift:.2g} from what {name} says; the file has what {target} computed")
        return writer.finish(
            model=name,
            sha256=lab.original.model.digest,
            target=target,
            runtime=lab.versions,
            samples=lab.origin,
            count=lab.available,
        )


def _tell(about: About, path: Path, *, as_json: bool) -> None:
    if as_json:
        print_json({"file": str(path), **about.model_dump(mode="json", exclude={"runs", "format"})})
    else:
        echo(f"{path}: {about.text}")
