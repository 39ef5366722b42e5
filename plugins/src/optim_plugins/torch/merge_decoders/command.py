"""``optim merge-decoders``: a decoder without and one with a past as one file."""

from __future__ import annotations

from pathlib import Path

import click

from optim.cli_kit import echo, json_option, print_json, seed_option, size_text


@click.command("merge-decoders")
@click.argument("without", type=click.Path(path_type=Path))
@click.argument("with_past", metavar="WITH", type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, help="The .onnx file to write; it must not exist."
)
@seed_option("Random seed of the samples to compare on.")
@json_option
def merge_decoders(without: Path, with_past: Path, output: Path, seed: int, as_json: bool) -> None:
    """Merge WITHOUT, a decoder without a past, and WITH, the same decoder with a past, into one file.

    The file stores shared weights once. An If node chooses the graph by the length of the past. optim compares the
    file with both decoders.
    """
    from optim.cli_kit import progress
    from optim.jobs import to_wire
    from optim_plugins.torch.merge_decoders.merged_file import write_merged

    with progress() as say:
        made = write_merged(without, with_past, output, say, seed=seed)
    if as_json:
        print_json(to_wire(made))
        return
    echo(f"{made.path}: {size_text(made.size_bytes)}, {size_text(made.apart_bytes)} apart")
    echo(f"{made.shared} tensors of both are stored once ({size_text(made.shared_bytes)})")
    runs = f"{made.prefills} runs without and {made.steps} with a past"
    echo(f"equal to both files: drift {made.drift:.3g} in {runs}")
