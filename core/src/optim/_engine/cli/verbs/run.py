"""``optim run``: optimize a model and leave a folder to deploy."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from optim._engine.cli.layouts import deliveries_of, layout_options, require_layouts
from optim._engine.cli.request import source_options
from optim.cli_kit.names import PASS_NAME, POINT_NAME, STAGE_NAME, disable_option
from optim.cli_kit.options import (
    MODEL_PATH,
    SECONDS,
    SECONDS_OR_AUTO,
    SEED,
    data_option,
    metric_options,
    mismatch_option,
    targets_option,
)
from optim.cli_kit.output import echo, echo_json, json_option, print_json, print_rich
from optim.errors import ExitStatus, OptimError

if TYPE_CHECKING:
    from optim._engine.reports.schema import Report
    from optim._engine.runs.layouts.asked import Deliveries


@click.command
@click.argument("source", type=MODEL_PATH)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="The run folder. [default: MODEL-optim]")
@targets_option("Where the model will run: a target, several with commas, or auto: the fastest is delivered.")
@data_option
@click.option(
    "--goal",
    type=click.Choice(["latency", "size", "memory", "startup", "throughput", "generate"]),
    help="What better means. [default: latency; of a decoder generate]",
)
@click.option(
    "--generate",
    metavar="prompt=N,new=N",
    help="Goal generate: tokens of a decoder's prompt and answer. [default: prompt=512,new=128]",
)
@click.option(
    "--max-latency",
    "max_latency_ms",
    type=float,
    metavar="MS",
    help="With --goal throughput: what 95 of 100 calls keep within, in milliseconds.",
)
@click.option("--max-drift", type=float, help="Largest drift that lossy passes may cause. [default: 0.1]")
@mismatch_option
@click.option(
    "--batch-invariant",
    type=float,
    metavar="LIMIT",
    help="How far a sample's answer may move in a batch and with padding, as drift.",
)
@click.option("--lossless", is_flag=True, help="Admit only passes held to rounding error.")
@metric_options
@click.option("--recipe", type=click.Path(path_type=Path), help="A recipe, or the lock of an earlier run to repeat.")
@click.option("--trust-code", is_flag=True, help="Let --recipe name functions and classes that are imported and run.")
@click.option(
    "--with",
    "named",
    multiple=True,
    type=PASS_NAME,
    metavar="PASS[:k=v,...]",
    help="A pass that must hold; values are TOML.",
)
@click.option("--without", multiple=True, type=PASS_NAME, help="Leave a pass out.")
@click.option("--stage", "stages", multiple=True, type=STAGE_NAME, help="Only this stage; may be given more than once.")
@click.option("--search-seconds", type=SECONDS_OR_AUTO, help="Of the whole run: a number, or auto. [default: auto]")
@click.option("--timeout", type=SECONDS, help="For one candidate, in seconds. [default: 900]")
@click.option("--dry-run", is_flag=True, help="Print the passes in order and the reason for each place.")
@click.option("--fresh", is_flag=True, help="Take nothing from the cache.")
@click.option("--seed", type=SEED, help="Of everything random. [default: 0]")
@click.option(
    "--pick",
    type=POINT_NAME,
    metavar="POINT",
    help="Deliver another point: fastest, smallest, most-accurate or a number.",
)
@layout_options
@click.option(
    "--cluster", metavar="WHERE", help="Machines that do the work: local:N, tls://HOST:PORT or module:function."
)
@click.option("--store-url", metavar="URL", help="Where the machines of --cluster exchange files: file://, s3://.")
@click.option(
    "--trace",
    type=click.Path(dir_okay=False, writable=True),
    help="Write all that the run does to FILE, for a replay; takes nothing from the cache.",
    metavar="FILE",
)
@click.option("--verbose", is_flag=True, help="Print every pass with its reason, and what it printed.")
@source_options
@disable_option
@json_option
def run(
    source: Path,
    output: Path | None,
    as_json: bool,
    dry_run: bool,
    recipe: Path | None,
    pick: str | None,
    verbose: bool,
    **words: Any,
) -> int:
    """Make SOURCE fast on the target, prove that it still computes the same, and leave a folder to deploy.

    SOURCE is an .onnx file or a folder of optim export; or a Hugging Face model folder or package.module:factory, which
    are exported first.
    Every change is verified and timed against the original; what is wrong or slower is dropped, with its reason.
    With --pick SOURCE may be the folder of an earlier run: another point of it is delivered, and nothing runs again.
    """
    deliveries = deliveries_of(words)
    if pick is not None and _is_run_folder(source):
        return _tell({"": _pick(source, pick, output or source, deliveries)}, output or source, as_json, verbose)
    from optim._engine.api.request import default_output, require_run
    from optim._engine.cli.request import settings_of

    settings, lock = settings_of(source, recipe, words)
    settings.require_sound()
    if dry_run:
        from optim._engine.cli.dry_run import print_plan

        print_plan(settings, as_json=as_json)
        return ExitStatus.DELIVERED
    require_run(settings)
    output = output or default_output(source)
    require_layouts(deliveries, settings, output)
    from optim._engine.runs.run import ToDeliver
    from optim._engine.runs.source_run import run_asked
    from optim.cli_kit.live_lines import progress

    with progress() as say:
        reports = run_asked(settings, output, say, ToDeliver(lock, pick or "", deliveries))
    return _tell(reports, output, as_json, verbose)


def _is_run_folder(path: Path) -> bool:
    from optim._engine.runs.mark import read_mark

    return path.is_dir() and read_mark(path) is not None


def _pick(folder: Path, wanted: str, output: Path, deliveries: Deliveries | None) -> Report:
    from optim._engine.runs.pick import pick_from
    from optim.cli_kit.live_lines import progress

    with progress() as say:
        return pick_from(folder, wanted, output, say, deliveries)


def _tell(reports: dict[str, Report], output: Path, as_json: bool, verbose: bool) -> int:
    """Print what came of it, component by component; the exit status."""
    from optim._engine.runs.folder import report_folder

    several = len(reports) > 1
    folders = {
        name: report_folder(output / name if several else output, delivered=report.result is not None)
        for name, report in reports.items()
    }
    if as_json and several:
        print_json({name: json.loads(report.as_json()) for name, report in reports.items()})
    elif as_json:
        echo_json(next(iter(reports.values())).as_json())
    else:
        for name, report in reports.items():
            _print(report, folders[name], name if several else "", verbose=verbose)
    return max(_status(report, folders[name]) for name, report in reports.items())


def _print(report: Report, folder: Path, component: str, *, verbose: bool) -> None:
    from optim._engine.reports.terminal import print_report

    if component:
        echo(f"\n{component}\n")
    page = str(folder / "report.html")
    debug = bool(click.get_current_context().find_root().params.get("debug"))
    print_rich(lambda console: print_report(report, console, page=page, verbose=verbose, debug=debug))
    echo(f"\nreport  {folder / 'report.html'}")
    if report.result is not None:
        loader = folder / "load.py"
        echo(f"model   {folder / 'model.onnx'}" + (f" (load it with {loader})" if loader.is_file() else ""))
        if report.viewer:
            echo(f"look    {report.viewer.replace('DIR', shlex.quote(str(folder)))}")
    if report.nearest is not None:
        echo(f"nearest {folder / 'nearest' / 'model.onnx'}, beyond the budget, kept aside")


def _status(report: Report, folder: Path) -> ExitStatus:
    """What the command exits with; says why where that is no success."""
    from optim._engine.reports.outcome import exit_status
    from optim._engine.runs.folder import ASIDE_FOLDER

    status = exit_status(report)
    failed_layouts = [laid for laid in report.layouts if laid.status == "failed"]
    if report.result is not None and failed_layouts:
        first = failed_layouts[0]
        fix = f"the model itself is in {folder}; see {folder / 'report.html'}"
        what = f"layout {first.layout} was not delivered"
        echo(str(OptimError("layout-failed", what, first.text, fix, first.plugin)), err=True)
        return ExitStatus.NOT_HELD
    if status is ExitStatus.INTERNAL:
        echo(str(report.broken[0].diagnosis), err=True)
    elif status is not ExitStatus.DELIVERED:
        earlier = f"; the earlier one in {folder.parent} stays" if folder.name == ASIDE_FOLDER else ""
        failed = OptimError(
            report.status,
            f"no model was delivered{earlier}",
            report.reason,
            f"see {folder / 'report.html'}",
            status=status,
        )
        echo(str(failed), err=True)
    return status
