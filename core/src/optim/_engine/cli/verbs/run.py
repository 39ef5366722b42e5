"""``optim run``: optimize a model and leave a folder to deploy."""

from __future__ import annotations

import json
import math
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from optim._engine.cli.request import layout_options, layouts_of, source_options
from optim.cli_kit.names import GOAL_NAME, PASS_NAME, POINT_NAME, STAGE_NAME, hidden_disable_option
from optim.cli_kit.options import (
    MODEL_PATH,
    SECONDS,
    SECONDS_OR_AUTO,
    SEED,
    OptimCommand,
    data_option,
    metric_options,
    mismatch_option,
    targets_option,
)
from optim.cli_kit.output import echo, echo_json, json_option, print_json, print_rich
from optim.errors import ExitStatus, OptimError

if TYPE_CHECKING:
    from optim._engine.reports.schema import BoundReport, Report
    from optim._engine.runs.delivering import LayoutRequest


_SECTIONS = {
    "Goal": ("--generate", "--max-size", "--max-memory", "--max-latency"),
    "Accuracy": ("--lossless", "--max-mismatch", "--max-batch-drift"),
    "Passes": ("--with", "--without", "--stage", "--dry-run"),
    "Time and cache": ("--search-seconds", "--timeout", "--no-cache", "--seed"),
    "Sources other than .onnx": ("--task", "--dynamic", "--source-arg", "--state", "--rename", "--weights"),
    "Files of other people": ("--trust-code", "--trust-remote-code", "--allow-pickle"),
    "Layouts for other programs": ("--files", "--python"),
    "Several machines": ("--cluster", "--store-url"),
    "Output": ("--pick", "--trace", "--verbose", "--json", "--help"),
}
"""The ten options that most people need have no heading."""

_EXAMPLES = (
    "optim run model.onnx -o out",
    "optim run model.onnx -o out --data samples.npz --max-drift 0.02",
    "optim run model.onnx -o out --data samples.npz --metric top-1 --max-loss 1%",
    "optim run model.onnx -o out --target cpu:threads=1 --deliver optimum",
    "optim run model.onnx -o out --with \"ort.quantize-dynamic:per_channel=false,keep=['MatMul_12']\"",
    'optim run model.onnx -o out --with "ort.fix-shapes:dimensions={batch=1,sequence=128}"',
    "optim run hf://org/name -o out",
)


@click.command(cls=OptimCommand, sections=_SECTIONS, examples=_EXAMPLES)
@click.argument("source", type=MODEL_PATH)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Run folder to write. [default: MODEL-optim]")
@targets_option("Target to run the model on (execution provider, device). With several, the fastest result wins.")
@data_option
@click.option(
    "--goal",
    type=GOAL_NAME,
    metavar="[latency|size|memory|accuracy|startup|throughput|generate]",
    help="Property to improve. [default: latency, or generate for a decoder with a past]",
)
@click.option(
    "--generate",
    metavar="prompt=N,new=N",
    help="Token counts for --goal generate, which this option implies. [default: prompt=512,new=128]",
)
@click.option("--max-size", metavar="SIZE", help="Largest size of the result on disk: 50MB, 48MiB or bytes.")
@click.option("--max-memory", metavar="SIZE", help="Largest peak memory of opening and running the result.")
@click.option(
    "--max-latency",
    "max_latency_ms",
    metavar="TIME",
    help="Largest latency of the result: 20ms, 500us, 1s or ms; of --goal throughput the p95 latency.",
)
@click.option(
    "--max-drift", type=float, metavar="LIMIT", help="Accuracy budget: largest drift of any output. [default: 0.1]"
)
@mismatch_option
@click.option(
    "--max-batch-drift",
    type=float,
    metavar="LIMIT",
    help="Largest drift of a sample between running alone and running in a padded batch.",
)
@click.option(
    "--lossless", is_flag=True, help="Allow rounding error only, up to 1e-4 (4e-3 with float16); no quantization."
)
@metric_options
@click.option(
    "--recipe",
    type=click.Path(path_type=Path),
    help="Read these settings from a recipe, or repeat a run from its lock.",
)
@click.option("--trust-code", is_flag=True, help="Allow --recipe to import and run code that it names.")
@click.option(
    "--with",
    "named",
    multiple=True,
    type=PASS_NAME,
    metavar="PASS[:k=v,...]",
    help="Require this pass: the run fails without it. Values are TOML. Can be repeated.",
)
@click.option("--without", multiple=True, type=PASS_NAME, help="Exclude this pass. Can be repeated.")
@click.option(
    "--stage", "stages", multiple=True, type=STAGE_NAME, help="Run the passes of this stage only. Can be repeated."
)
@click.option(
    "--preset",
    type=click.Choice(["quick", "default", "best"]),
    help="How long to search. quick: about 30 s. default: what the model needs, up to 300 s. best: as long as anything "
    "promising is left, up to 30 minutes.",
)
@click.option(
    "--search-seconds", type=SECONDS_OR_AUTO, help="Time limit for the whole run, in place of that of --preset."
)
@click.option("--timeout", type=SECONDS, help="Time limit for one candidate, in seconds. [default: 900]")
@click.option("--dry-run", is_flag=True, help="Print the plan, with the reason for each pass, and stop.")
@click.option("--no-cache", "fresh", is_flag=True, help="Read nothing from the cache.")
@click.option("--seed", type=SEED, metavar="N", help="Random seed. [default: 0]")
@click.option(
    "--pick",
    type=POINT_NAME,
    metavar="POINT",
    help="Deliver another result of the run: fastest, smallest, most-accurate, its number, or limits.",
)
@layout_options
@click.option("--cluster", metavar="WHERE", help="Dask scheduler: local:N, tls://HOST:PORT or package.module:function.")
@click.option(
    "--store-url", metavar="URL", help="Address at which machines of --cluster exchange files: file:// or s3://."
)
@click.option(
    "--trace",
    type=click.Path(dir_okay=False, writable=True),
    help="Write every action of the run to FILE, for a replay; takes nothing from the cache.",
    metavar="FILE",
)
@click.option("--verbose", is_flag=True, help="Print every candidate with its reason, and what passes printed.")
@source_options
@hidden_disable_option
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
    """Make SOURCE fast on the target, check that it still computes the same, and write a folder to deploy.

    SOURCE is an .onnx file, a folder of optim export, a Hugging Face model folder, hf://ORG/NAME, or
    package.module:factory. optim exports a source that is not ONNX first.

    optim compares every candidate with the original and times it against the original. optim drops a candidate that is
    wrong or slower, and the report gives the reason.

    The same command again is served from the cache. After an interrupted run, it continues that run.
    """
    from optim._engine.runs.folder import read_mark

    layouts = layouts_of(words)
    if pick is not None and source.is_dir() and read_mark(source) is not None:  # as before there was optim pick
        return deliver_point(source, pick, output or source, layouts, as_json=as_json, verbose=verbose)
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
    from optim._engine.runs.run import ToDeliver, run_asked
    from optim.cli_kit.live_lines import progress

    with progress() as say:
        reports = run_asked(settings, output, say, ToDeliver(lock, pick or "", layouts))
    return _tell(reports, output, as_json, verbose, tuple(one.name for one in settings.named))


def deliver_point(
    folder: Path, wanted: str, output: Path, layouts: LayoutRequest | None, *, as_json: bool, verbose: bool
) -> int:
    """Deliver another result of an earlier run, and print its report; returns the exit status."""
    from optim._engine.runs.pick import pick_from
    from optim.cli_kit.live_lines import progress

    with progress() as say:
        report = pick_from(folder, wanted, output, say, layouts)
    return _tell({"": report}, output, as_json, verbose)


def _tell(
    reports: dict[str, Report], output: Path, as_json: bool, verbose: bool, required: tuple[str, ...] = ()
) -> int:
    """Print the report of each component; returns the exit status."""
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
    return max(_status(report, folders[name], required) for name, report in reports.items())


def _print(report: Report, folder: Path, component: str, *, verbose: bool) -> None:
    from optim._engine.reports.renderer import print_report
    from optim._engine.runs.folder import report_page

    if component:
        echo(f"\n{component}\n")
    page = str(report_page(folder))
    debug = bool(click.get_current_context().find_root().params.get("debug"))
    print_rich(lambda console: print_report(report, console, page=page, verbose=verbose, debug=debug))
    echo(f"\nreport  {page}")
    if report.result is not None:
        loader = folder / "load.py"
        echo(f"model   {folder / 'model.onnx'}" + (f" (load it with {loader})" if loader.is_file() else ""))
        if report.viewer:
            echo(f"look    {report.viewer.replace('DIR', shlex.quote(str(folder)))}")
    if report.nearest is not None:
        echo(f"nearest {folder / 'nearest' / 'model.onnx'}, beyond the budget, kept aside")


def _status(report: Report, folder: Path, required: tuple[str, ...] = ()) -> ExitStatus:
    """What the command exits with; says why where that is no success."""
    from optim._engine.reports.outcome import exit_status
    from optim._engine.runs.folder import ASIDE_FOLDER, report_page

    status = exit_status(report)
    failed_layouts = [laid for laid in report.layouts if laid.status == "failed"]
    if report.result is not None and failed_layouts:
        first = failed_layouts[0]
        fix = f"the model itself is in {folder}; see {report_page(folder)}"
        what = f"layout {first.layout} was not delivered"
        echo(str(OptimError("layout-failed", what, first.text, fix, first.plugin)), err=True)
        return ExitStatus.NOT_HELD
    if status is ExitStatus.INTERNAL:
        echo(str(report.broken[0].diagnosis), err=True)
    elif status is not ExitStatus.DELIVERED:
        earlier = f"; the earlier one in {folder.parent} stays" if folder.name == ASIDE_FOLDER else ""
        failed = OptimError(
            report.status,  # errors: budget-missed, failed
            f"no model was delivered{earlier}",
            report.reason,
            _next_step(report, report_page(folder), required),
            status=status,
        )
        echo(str(failed), err=True)
    return status


def _larger(bound: BoundReport) -> str:
    """The option with which the model would meet a bound that it breaks, rounded up to three digits."""
    from optim._engine.goals.bounds import Bound

    high = bound.interval[1] if bound.interval is not None else bound.value
    if not high:
        return f"--max-{bound.figure}"
    high *= 1.0 if bound.figure == "size" else 1.05
    digit = 10.0 ** (math.floor(math.log10(high)) - 2)
    return Bound(bound.figure, math.ceil(high / digit) * digit).text


def _next_step(report: Report, page: Path, required: tuple[str, ...] = ()) -> str:
    """The next command after a run that delivered no model; ``required`` are the passes that the user named."""
    named = next((name for name in required if name in report.reason), "")
    if report.status == "failed" and "--search-seconds" in report.reason:
        leave_out = f", or leave out --with {named}" if named else ""
        return f"run the same command with more time, such as --search-seconds 600{leave_out}; see {page}"
    if report.status == "failed" and not any(step.status == "failed" for step in report.steps):
        if named:
            return f"leave out --with {named}; optim passes show {named} says when it applies"
        return "run optim --debug run ... with the same options, and report its output"
    if report.status == "failed":
        return f"read the failed steps in {page}, then leave out the --with of the pass at fault, or add --without PASS"
    near = report.nearest.drift.relative_error if report.nearest is not None else None
    limits = [_larger(bound) for bound in report.budget.bounds if bound.standing != "meets"]
    if report.budget.bounds and not limits and near is None:
        return f"give more time (--search-seconds): what keeps within the limits was not timed; see {page}"
    if not limits:  # it is beyond the accuracy budget, not beyond a bound
        limits += ["--max-loss"] if report.budget.max_loss else []
        too_far = report.budget.max_drift is not None and near is not None
        limits += [f"--max-drift {float(f'{1.05 * (near or 0.0):.2g}'):g}"] if too_far else []
    accept = " ".join(limits) or (
        "a larger --max-latency" if report.original.throughput is not None else "a larger budget"
    )
    if any(bound.standing == "undecided" for bound in report.budget.bounds):
        accept += "; to decide it, repeat the run on a quiet machine with --no-cache"
    data = "give real samples (--data) or " if report.feeds.origin == "synthesized" else "give "
    return f"accept more ({accept}), or {data}more time (--search-seconds); see {page}"
