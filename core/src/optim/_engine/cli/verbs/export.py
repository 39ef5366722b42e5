"""``optim export``: from a torch module or a Hugging Face folder to verified ONNX."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from optim._engine.cli.source_options import source_options
from optim.cli_kit.names import PASS_NAME
from optim.cli_kit.options import SECONDS, seed_option, target_option
from optim.cli_kit.output import echo, json_option, print_json, print_table

if TYPE_CHECKING:
    from optim._engine.sources.make import ExportedSource


@click.command
@click.argument("source")
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="The folder for the graphs.")
@target_option
@source_options
@click.option("--with", "named", multiple=True, metavar="PASS[:k=v,...]", help="A pass that must run; values are TOML.")
@click.option("--without", multiple=True, type=PASS_NAME, help="Leave a pass or an exporter out.")
@click.option("--timeout", type=SECONDS, default=3600.0, show_default=True, help="For each job, in seconds.")
@click.option("--fresh", is_flag=True, help="Take nothing from the cache.")
@seed_option("Of everything random.")
@json_option
def export(
    source: str,
    output: Path,
    target: str,
    named: tuple[str, ...],
    without: tuple[str, ...],
    timeout: float,
    fresh: bool,
    seed: int,
    as_json: bool,
    **words: Any,
) -> None:
    """Turn SOURCE into ONNX that is proved equal to it.

    SOURCE is a Hugging Face model folder, or package.module:factory, a function that returns a torch module, or a
    module and example inputs. Nothing is downloaded.
    """
    from optim._engine.cli.request import parse_named
    from optim._engine.cli.source_options import source_request
    from optim._engine.runs.export import export_source
    from optim._engine.sources.pipeline import Choice
    from optim.cli_kit.progress import progress

    passes = [parse_named(text) for text in named]
    choice = Choice({one.name: one.options for one in passes}, tuple(sorted(set(without))))
    with progress() as say:
        made = export_source(
            source_request(source, words, seed),
            output,
            say,
            target=target,
            choice=choice,
            timeout_s=timeout,
            fresh=fresh,
        )
    if as_json:
        print_json(_as_fields(made, output))
    else:
        _print(made, output)


def _as_fields(made: ExportedSource, output: Path) -> dict[str, Any]:
    from optim.jobs.wire import to_wire

    verified = {found.component: found for found in made.verified}
    return {
        "source": made.request.spec,
        "output": str(output),
        "facts": made.facts,
        "components": [
            {
                "name": graph.component,
                "file": str(output / f"{graph.component}.onnx"),
                "size_bytes": graph.size_bytes,
                "inputs": to_wire(graph.model.inputs),
                "outputs": to_wire(graph.model.outputs),
                "drift": verified[graph.component].drift.relative_l2,
                "trials": list(verified[graph.component].trials),
                "skipped": list(verified[graph.component].skipped),
                "tokens": verified[graph.component].tokens,
            }
            for graph in made.graphs
        ],
        "steps": to_wire(made.steps),
        "notes": [*made.notes, *(note for found in made.verified for note in found.notes)],
        "peak_memory_bytes": made.peak_memory_bytes,
        "seconds": made.seconds,
    }


def _print(made: ExportedSource, output: Path) -> None:
    from optim._engine.reports.words import counts_text, figure_text, size_text

    shown = [step for step in made.steps if step.status not in ("not-applicable", "skipped")]
    rows = [
        [step.name, step.status, counts_text(dict(step.counts)), "; ".join([step.reason, *step.notes]).strip("; ")]
        for step in shown
    ]
    print_table(["step", "", "counts", ""], rows)
    echo()
    graphs = {graph.component: graph for graph in made.graphs}
    rows = [
        [
            found.component,
            size_text(graphs[found.component].size_bytes),
            figure_text(found.drift.relative_l2),
            str(len(found.trials)),
            str(found.tokens or ""),
            str(output / f"{found.component}.onnx"),
        ]
        for found in made.verified
    ]
    print_table(["component", "size", "drift", "trials", "tokens", "file"], rows)
    for found in made.verified:
        for skipped in found.skipped:
            echo(f"note: {found.component} was not tried on '{skipped}', which the source refuses")
        for note in found.notes:
            echo(f"note: {note}")
    for note in made.notes:
        echo(f"note: {note}")
