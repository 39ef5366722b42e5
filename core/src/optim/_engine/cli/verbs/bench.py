"""``optim bench``: time models against each other."""

from __future__ import annotations

from pathlib import Path

import click

from optim.cli_kit.names import TARGET_NAME
from optim.cli_kit.options import SECONDS, data_option, seed_option, targets_option
from optim.cli_kit.output import echo, json_option, print_json, print_table
from optim.errors import ExitStatus


@click.command
@click.argument("models", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="MODEL_OR_RUN_FOLDER...")
@data_option
@targets_option("Where they run; of one model several with commas, or auto.", default="cpu")
@click.option("--seconds", type=SECONDS, default=20.0, show_default=True, help="Of timing, at most.")
@seed_option("Of synthesized feeds and of the order.")
@click.option("--beside", multiple=True, type=TARGET_NAME, help="Also run the first's source itself: torch-eager, ...")
@click.option("--component", default="", help="Of a source with several, e.g. decoder.")
@json_option
def bench(
    models: tuple[Path, ...],
    data: str | None,
    target: str,
    seconds: float,
    seed: int,
    beside: tuple[str, ...],
    component: str,
    as_json: bool,
) -> int:
    """Time models in lock-step, each in a process of its own, or one model on several targets; ratios are to the first.

    Each is an .onnx file, opened with the backend's defaults, a run folder, opened with its tuned settings, or a
    Hugging Face folder or package.module:factory, which is exported first.
    """
    from optim._engine.api.bench import bench as bench_models
    from optim.cli_kit.progress import progress

    with progress() as say:
        found = bench_models(
            models, data=data, seconds=seconds, target=target, beside=beside, component=component, seed=seed, say=say
        )
    if as_json:
        print_json(found.model_dump(mode="json"))
    else:
        print_table(found.columns, found.rows())
        shapes = found.models[0].shapes
        if len(shapes) > 1:
            echo("latency is the geometric mean over " + "; ".join(item.shape for item in shapes))
    return ExitStatus.BAD_INPUT if any(timed.error for timed in found.models) else ExitStatus.DELIVERED
