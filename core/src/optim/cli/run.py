"""``optim run``: optimize a model and leave a folder to deploy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from optim.cli.names import PASS_NAME, STAGE_NAME, TARGET_NAME, disable_option
from optim.cli.output import json_option
from optim.errors import ExitStatus, OptimError


@click.command
@click.argument("model", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), help="The run folder; not needed with --dry-run.")
@click.option("--target", type=TARGET_NAME, help="Where the model will run. [default: cpu]")
@click.option(
    "--data", metavar="FEEDS", help="An .npz, a folder of them, or package.module:function. [default: synthesized]"
)
@click.option("--goal", type=click.Choice(["latency", "size"]), help="What better means. [default: latency]")
@click.option("--max-drift", type=float, help="Largest relative L2 that lossy passes may cause. [default: 0.05]")
@click.option("--lossless", is_flag=True, help="Admit only passes held to rounding error.")
@click.option("--recipe", type=click.Path(path_type=Path), help="A recipe, or the lock of an earlier run to repeat.")
@click.option(
    "--with", "named", multiple=True, type=PASS_NAME, metavar="PASS[:k=v,...]",
    help="A pass that must hold; values are TOML.",
)  # fmt: skip
@click.option("--without", multiple=True, type=PASS_NAME, help="Leave a pass out.")
@click.option("--stage", "stages", multiple=True, type=STAGE_NAME, help="Only this stage; may be given more than once.")
@click.option("--search-seconds", type=float, help="Bound of the search, in seconds. [default: 60]")
@click.option("--timeout", type=float, help="For one candidate, in seconds. [default: 900]")
@click.option("--dry-run", is_flag=True, help="Print the passes in order and the reason for each place.")
@click.option("--fresh", is_flag=True, help="Take nothing from the cache.")
@click.option("--seed", type=int, help="Of everything random. [default: 0]")
@disable_option
@json_option
def run(model: Path, output: Path | None, as_json: bool, dry_run: bool, recipe: Path | None, **words: Any) -> int:
    """Make MODEL fast on the target, prove that it still computes the same, and leave a folder to deploy.

    Every change is verified and timed against the original; what is wrong or slower is dropped, with its reason.
    """
    from optim.cli.request import settings_of

    settings, lock = settings_of(model, recipe, words)
    if dry_run:
        from optim.cli.dry_run import print_plan

        print_plan(settings, as_json=as_json)
        return ExitStatus.DELIVERED
    if output is None:
        raise click.UsageError("Missing option '-o' / '--output'.")
    from optim.cli.progress import progress
    from optim.runs.outcome import RunStatus
    from optim.runs.run import EXIT_STATUS, run_settings

    with progress() as say:
        report = run_settings(settings, output, say, lock=lock)
    if as_json:
        click.echo(report.as_json(), nl=False)
    else:
        from rich.console import Console

        from optim.reports.terminal import print_report

        print_report(report, Console(highlight=False))
        click.echo(f"\nreport  {output / 'report.html'}")
        if report.result is not None:
            loader = output / "load.py"
            click.echo(f"model   {output / 'model.onnx'}" + (f" (load it with {loader})" if loader.is_file() else ""))
    status = EXIT_STATUS[RunStatus(report.status)]
    if status is not ExitStatus.DELIVERED:
        failed = OptimError(
            report.status, "no model was delivered", report.reason, f"see {output / 'report.html'}", status=status
        )
        click.echo(str(failed), err=True)
    return status
