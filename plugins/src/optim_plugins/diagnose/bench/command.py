"""``optim bench``: time models against each other."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import optim
from optim.cli_kit import (
    SECONDS,
    TARGET_NAME,
    OptimCommand,
    data_option,
    echo,
    json_option,
    print_json,
    print_table,
    progress,
    require_drawing,
    require_writable,
    seed_option,
    targets_option,
    write_text,
)
from optim.engine.bench import MODEL_OR_PROGRAM_PATH, made_up_options, on_runtimes, runtime_option
from optim.errors import ExitStatus, OptimError

if TYPE_CHECKING:
    from optim.engine.bench import GridBenchmark


_AXIS = re.compile(r"[A-Za-z_][\w.+-]*=\d+(,\d+)*")
"""An axis of a grid, as it may follow another without ``--grid`` before it."""


class _GridCommand(OptimCommand):
    """Takes several axes after one ``--grid``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Puts ``--grid`` before each axis that follows another."""
        words: list[str] = []
        for word in args:
            follows = words[-2:-1] == ["--grid"] and _AXIS.fullmatch(word)
            words += ["--grid", word] if follows else [word]
        return super().parse_args(ctx, words)


@click.command(
    cls=_GridCommand,
    sections={
        "Several sizes": ("--grid", "--plot"),
        "Servers and decoders": ("--throughput", "--max-latency", "--generate"),
        "Sources other than .onnx": ("--beside", "--component"),
        "Output": ("--csv", "--json", "--help"),
    },
    examples=(
        "optim bench model.onnx out --data samples.npz",
        "optim bench model.onnx --target cpu,openvino",
        "optim bench model.onnx --runtime onnxruntime==1.28.0,1.32.0",
        "optim bench model.onnx out --grid batch=1,8 sequence=16,128 --csv grid.csv --plot grid.svg",
    ),
)
@click.argument("models", nargs=-1, required=True, type=MODEL_OR_PROGRAM_PATH, metavar="MODEL_OR_RUN_FOLDER...")
@data_option
@made_up_options
@targets_option("Target to run the models on. One model can run on several: names with commas, or auto.", default="cpu")
@runtime_option
@click.option("--seconds", type=SECONDS, default=20.0, show_default=True, help="Time limit for timing, in seconds.")
@seed_option("Random seed of synthesized samples and of the order.")
@click.option(
    "--beside",
    multiple=True,
    type=TARGET_NAME,
    help="Also time the source of the first model itself, e.g. torch-eager. Can be repeated.",
)
@click.option("--component", default="", help="Component to time if the source has several, e.g. decoder.")
@click.option(
    "--throughput",
    is_flag=True,
    help="Also find the batch size, sessions and threads with the most samples per second.",
)
@click.option(
    "--max-latency",
    "max_latency_ms",
    type=float,
    metavar="MS",
    help="Limit of the p95 latency for --throughput, in milliseconds.",
)
@click.option(
    "--generate", metavar="prompt=N,new=N", help="Also time a whole answer of a decoder, with these token counts."
)
@click.option(
    "--grid",
    multiple=True,
    metavar="NAME=SIZE,... ...",
    help="Time every combination of sizes, e.g. batch=1,8 sequence=16,128.",
)
@click.option(
    "--csv", "table", type=click.Path(path_type=Path, dir_okay=False), help="Also write the table to this CSV file."
)
@click.option(
    "--plot", type=click.Path(path_type=Path, dir_okay=False), help="Write a plot of --grid to this .svg file."
)
@json_option
def bench(
    models: tuple[Path, ...],
    runtime: str | None,
    grid: tuple[str, ...],
    table: Path | None,
    plot: Path | None,
    as_json: bool,
    **words: Any,
) -> int:
    """Time models in turns, each in a process of its own. Ratios are to the first model.

    A model is an .onnx file, a run folder, a Hugging Face folder, or package.module:factory. optim opens a run folder
    with its tuned session settings and an .onnx file with the defaults of the backend. With --generate, every model but
    the first may be a folder of onnxruntime-genai.
    """
    if runtime is not None:
        return on_runtimes(runtime, models)
    _require_places(table, plot, grid=bool(grid))
    if grid:
        _require_alone(words)
        asked = {name: words[name] for name in ("seconds", "target", "seed", "throughput", "max_latency_ms")}
        with progress() as say:
            points = optim.bench_grid(models, parse_grid(grid), say=say, **asked)
        return _tell_grid(points, table, plot, as_json=as_json)
    given = {name: value for name, value in words.items() if value is not None}
    with progress() as say:
        found = optim.bench(models, say=say, **given)
    if table is not None:
        write_text(table, found.as_csv())
    if as_json:
        print_json(found.model_dump(mode="json"))
    else:
        print_table(found.columns, found.rows())
        shapes = found.models[0].shapes
        if len(shapes) > 1:
            echo("latency is the geometric mean over " + "; ".join(item.shape for item in shapes))
    return _status(found)


def _status(found: optim.Benchmark) -> ExitStatus:
    """What whoever called this is told: a target that is not here is told apart from a model that does not run."""
    failed = [timed for timed in found.models if timed.error]
    if not failed:
        return ExitStatus.DELIVERED
    return ExitStatus.TARGET_UNAVAILABLE if all(timed.not_here for timed in failed) else ExitStatus.BAD_INPUT


def parse_grid(axes: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """``batch=1,8`` and the like, as sizes by dimension.

    Raises:
        OptimError[bad-grid]: it is no name with sizes from 1 on, or a name comes twice.
    """
    found: dict[str, tuple[int, ...]] = {}
    for text in (axis for word in axes for axis in word.split()):
        name, _, sizes = text.partition("=")
        numbers = [int(size) for size in sizes.split(",")] if _AXIS.fullmatch(text) else []
        if not numbers or 0 in numbers or name in found:
            raise OptimError.usage(
                "bad-grid",
                f"--grid cannot be {text}",
                "the dimension is named twice"
                if name in found
                else "nothing can be timed at size 0"
                if 0 in numbers
                else "the form is NAME=SIZE,SIZE with sizes of 1 or more",
                "optim export SOURCE -o exported makes the graphs and times nothing"
                if 0 in numbers
                else "--grid batch=1,8,32 sequence=16,128",
            )
        found[name] = tuple(dict.fromkeys(numbers))
    return found


def _require_places(table: Path | None, plot: Path | None, *, grid: bool) -> None:
    from optim.engine.bench import RENDERER, load_registry

    if plot is not None and not grid:
        raise OptimError.usage(
            "conflicting-request",
            "--plot needs --grid",
            "--plot draws latency over several sizes, and there is only one",
            "add --grid batch=1,8,32",
        )
    if plot is not None:
        require_drawing(plot, "--plot")
        load_registry().part(RENDERER, "--plot cannot be used")
    if table is not None:
        require_writable(table)


def _require_alone(words: Mapping[str, Any]) -> None:
    """Refuse options that mean nothing beside ``--grid``."""
    if words["data"] is not None:
        raise OptimError.usage(
            "conflicting-request",
            "--grid and --data exclude each other",
            "--grid synthesizes inputs in its own sizes",
            "leave --data out",
        )
    if words["generate"] is not None:
        raise OptimError.usage(
            "conflicting-request",
            "--grid and --generate exclude each other",
            "--generate already sets the sizes of every step",
            "leave --grid out and change the prompt: --generate prompt=1024,new=128",
        )
    if words["beside"] or words["component"]:
        raise OptimError.usage(
            "conflicting-request",
            f"--grid and {'--beside' if words['beside'] else '--component'} exclude each other",
            "--grid works for ONNX models only",
            "export the source first: optim export SOURCE -o exported",
        )
    if words["samples"] or words["sizes"] or words["mask"]:
        raise OptimError.usage(
            "conflicting-request",
            "--grid excludes --samples, --size and --mask",
            "--grid makes one sample of each combination of its sizes",
            "name all sizes in --grid, or leave it out",
        )


def _tell_grid(found: GridBenchmark, table: Path | None, plot: Path | None, *, as_json: bool) -> int:
    if table is not None:
        write_text(table, found.as_csv())
    if plot is not None:
        write_text(plot, found.as_svg())
    if as_json:
        print_json(found.model_dump(mode="json"))
    else:
        print_table(found.columns, found.rows())
    return ExitStatus.BAD_INPUT if found.has_errors else ExitStatus.DELIVERED
