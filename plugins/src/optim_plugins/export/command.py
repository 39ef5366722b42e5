"""``optim export``: from a torch module or a Hugging Face folder to verified ONNX."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from optim.cli_kit import (
    PASS_NAME,
    SECONDS,
    OptimCommand,
    echo,
    json_option,
    print_json,
    print_table,
    seed_option,
    target_option,
)
from optim.engine.export import source_options

if TYPE_CHECKING:
    from optim import ExportedFolder


@click.command(
    cls=OptimCommand,
    sections={
        "Passes": ("--with", "--without"),
        "Time and cache": ("--timeout", "--no-cache", "--seed"),
        "Output": ("--json", "--help"),
    },
    examples=(
        "optim export models/all-MiniLM-L6-v2 -o exported",
        "optim export package.module:factory -o exported --dynamic tokens=batch,length --state mems",
    ),
)
@click.argument("source")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, help="Folder for the graphs and export.json."
)
@target_option
@source_options
@click.option(
    "--with",
    "named",
    multiple=True,
    metavar="PASS[:k=v,...]",
    help="Require this pass. Values are TOML. Can be repeated.",
)
@click.option("--without", multiple=True, type=PASS_NAME, help="Exclude this pass or exporter. Can be repeated.")
@click.option(
    "--max-drift",
    type=float,
    metavar="LIMIT",
    help="Largest drift of an output from the source. [default: what rounding explains]",
)
@click.option(
    "--timeout",
    type=SECONDS,
    default=3600.0,
    show_default=True,
    help="Time limit for each of load, export and verify, in seconds.",
)
@click.option("--no-cache", "fresh", is_flag=True, help="Read nothing from the cache.")
@seed_option("Random seed.")
@json_option
def export(
    source: str,
    output: Path,
    target: str,
    named: tuple[str, ...],
    without: tuple[str, ...],
    max_drift: float | None,
    timeout: float,
    fresh: bool,
    seed: int,
    as_json: bool,
    **words: Any,
) -> None:
    """Export SOURCE to ONNX and compare the graph with the source.

    SOURCE is a Hugging Face model folder, hf://ORG/NAME, or package.module:factory. optim downloads the files of
    hf://ORG/NAME. A factory is a function that returns a torch module, or a module and example inputs.
    """
    import optim
    from optim.cli_kit import progress
    from optim.engine.export import parse_named, source_request

    asked = source_request(source, words, seed)
    given: dict[str, Any] = {field.name: getattr(asked, field.name) for field in fields(asked)}
    given |= {"max_drift": max_drift, "without": without, "timeout": timeout, "fresh": fresh}
    passes = {one.name: one.options for one in map(parse_named, named)}
    with progress() as say:
        made = optim.export(given.pop("spec"), output, target=target, passes=passes, say=say, **given)
    if as_json:
        print_json(made.model_dump(mode="json"))
    else:
        _print(made)


def _print(made: ExportedFolder) -> None:
    from optim.cli_kit import size_text
    from optim.engine.export import counts_text, figure_text

    shown = [step for step in made.steps if step.status not in ("not-applicable", "skipped")]
    rows = [
        [step.name, step.status, counts_text(step.counts), "; ".join([step.reason, *step.notes]).strip("; ")]
        for step in shown
    ]
    print_table(["pass", "", "counts", ""], rows)
    echo()
    rows = [
        [
            part.name,
            size_text(part.size_bytes),
            figure_text(part.drift),
            str(len(part.trials)),
            str(part.tokens or ""),
            part.file,
        ]
        for part in made.components
    ]
    print_table(["component", "size", "drift", "trials", "tokens", "file"], rows)
    for part in made.components:
        for skipped in part.skipped:
            echo(f"note: {part.name} was not tried on '{skipped}', which the source refuses")
    for note in made.notes:
        echo(f"note: {note}")
