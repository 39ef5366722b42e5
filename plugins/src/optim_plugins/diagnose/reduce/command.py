"""``optim reduce``: a failing model cut to the smallest part that still fails."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from optim.cli_kit import MODEL_PATH, SECONDS, OptimCommand, echo, json_option, print_json, size_text
from optim.errors import OptimError

if TYPE_CHECKING:
    import onnx_ir as ir

_PLACE = "{}"

_STILL_CUT = ("invalid-graph", "unknown-operator", "opset-too-new", "ir-too-new")
"""Why a model is refused that can be read and cut all the same."""

_MOST_INSIDE = 1 << 30
"""Bytes of weights in the file itself: a message of protobuf holds 2 GB."""


@click.command(cls=OptimCommand, examples=("optim reduce model.onnx --while 'python check.py {}'",))
@click.argument("model", type=MODEL_PATH)
@click.option(
    "--while",
    "command",
    required=True,
    metavar="COMMAND",
    help="Command that fails on MODEL. {} stands for the file, which comes last by default.",
)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="File to write. [default: MODEL-reduced.onnx]")
@click.option(
    "--attempts",
    type=click.IntRange(min=1),
    default=300,
    show_default=True,
    metavar="N",
    help="Largest number of parts to try.",
)
@click.option(
    "--timeout", type=SECONDS, default=60.0, show_default=True, help="Seconds before the command counts as failed."
)
@json_option
def reduce(model: Path, command: str, output: Path | None, attempts: int, timeout: float, as_json: bool) -> None:
    """Cut MODEL to the smallest part on which COMMAND fails in the same way: with the same exit status.

    The part contains its weights, ready for a bug report. Its inputs and outputs change while optim cuts, so COMMAND
    must accept any. optim runs COMMAND without a shell. MODEL may be one that no runtime opens.
    """
    from optim.cli_kit import progress, require_writable
    from optim_plugins.diagnose.reduce.cut import reduce_model

    aim = output or Path(f"{model.stem}-reduced.onnx")
    require_writable(aim)
    with progress() as say, TemporaryDirectory(prefix="optim-reduce-") as text:
        folder = Path(text)
        read = _reader(model, folder / "store")
        words = _words(command)
        status = _status(words, model.absolute(), timeout)
        if status == 0:
            raise OptimError.usage(
                "nothing-fails",
                f"the command does not fail on {model}",
                f"'{command}' ended with exit status 0",
                "give a command that fails on the model, such as a script with an assertion",
            )

        def fails(part: ir.Model) -> bool:
            candidate = _written(part, folder / "candidate.onnx")
            say(f"{len(part.graph)} nodes")
            return _status(words, candidate, timeout) == status

        found, tried = reduce_model(read, fails, attempts)
        before = len(read().graph)
        written = _written(found, aim.absolute())
    if as_json:
        print_json({"nodes": len(found.graph), "of": before, "attempts": tried, "status": status, "path": str(written)})
        return
    echo(f"{aim}: {len(found.graph)} of {before} nodes, {size_text(written.stat().st_size)}, in {tried} attempts")
    echo(f"the command ends with exit status {status} on it, as on {model}")


def _reader(model: Path, store: Path) -> Callable[[], ir.Model]:
    """Fresh graphs of a model; of one that onnx refuses too, for that may be what fails."""
    from optim.cli_kit import read_model, read_unchecked

    try:
        return read_model(model, store).ir
    except OptimError as error:
        if error.reference not in _STILL_CUT:
            raise
        return partial(read_unchecked, model)


def _words(command: str) -> list[str]:
    """The command, split as a shell does, with one place for the file."""
    words = shlex.split(command, posix=sys.platform != "win32")
    return words if any(_PLACE in word for word in words) else [*words, _PLACE]


def _status(words: list[str], path: Path, timeout_s: float) -> int:
    """The exit status; -1 where it took too long."""
    called = [word.replace(_PLACE, str(path)) for word in words]
    try:
        return subprocess.run(called, capture_output=True, timeout=timeout_s, check=False).returncode
    except subprocess.TimeoutExpired:
        return -1
    except OSError as error:
        raise OptimError.usage(
            "no-such-command",
            f"'{words[0]}' cannot be run",
            str(error),
            "name a program that is there: --while 'python check.py {}'",
        ) from error


def _written(graph: ir.Model, path: Path) -> Path:
    """Write a graph with its weights inside, or beside where they are too large for one file."""
    import onnx_ir as ir

    from optim.onnx import embedded_tensor

    initial = [value for part in graph.graphs() for value in part.initializers.values()]
    weights = [value for value in initial if value.const_value is not None]
    large = sum(value.const_value.nbytes for value in weights if value.const_value) > _MOST_INSIDE
    for value in weights:
        if not large and isinstance(value.const_value, ir.ExternalTensor):
            value.const_value = embedded_tensor(value.const_value)
    ir.save(graph, path, external_data=f"{path.name}.data" if large else None)
    return path
