"""Options of ``optim bench`` and ``optim verify``: synthesized samples, and versions of the runtime."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from optim.errors import OptimError

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

_PASSED_ON = ("data", "seconds", "max_drift", "seed", "as_json")

runtime_option = click.option(
    "--runtime",
    metavar="onnxruntime==VERSION,...",
    help="Run one model on these versions instead; the same as optim runtimes.",
)


def on_runtimes(versions: str, models: Sequence[Path]) -> int:
    """Call ``optim runtimes`` with what the user gave to this verb.

    Raises:
        OptimError[conflicting-request]: there are several models, or an option that it does not take.
    """
    context = click.get_current_context()
    given = {name for name in context.params if context.get_parameter_source(name) is ParameterSource.COMMANDLINE}
    options = {item.name: item.opts[0] for item in context.command.params if isinstance(item, click.Option)}
    other = next((option for name, option in options.items() if name in given - {*_PASSED_ON, "runtime"}), "")
    if other or len(models) > 1:
        raise OptimError.usage(
            "conflicting-request",
            f"--runtime and {other or 'a second model'} exclude each other",
            "--runtime runs one model on the processor with several versions of onnxruntime",
            f"optim {context.command.name} {models[0]} --runtime {versions}",
        )
    from optim_plugins.diagnose.runtimes.command import runtimes

    passed = {name: context.params[name] for name in _PASSED_ON if name in given}
    status: int = context.invoke(runtimes, model=models[0], versions=versions, **passed)
    return status


def _sizes(ctx: click.Context, param: click.Parameter, words: tuple[str, ...]) -> dict[str, int]:
    found: dict[str, int] = {}
    for word in words:
        name, _, size = word.partition("=")
        if not name or not size.isdecimal() or not int(size) or name in found:
            raise click.BadParameter(f"'{word}' is not NAME=N with N of 1 or more, or comes twice", ctx, param)
        found[name] = int(size)
    return found


def made_up_options(function: Decorated) -> Decorated:
    """The options of synthesized samples: ``--samples``, ``--size`` and ``--mask``."""
    mask = "Mask of synthesized rows: full hides nothing, end or start hides a part there. [default: in a few rows]"
    size = "Size of a dimension of synthesized samples, e.g. batch=4. Can be repeated."
    function = click.option("--mask", type=click.Choice(["full", "end", "start"]), default=None, help=mask)(function)
    function = click.option("--size", "sizes", multiple=True, metavar="NAME=N", callback=_sizes, help=size)(function)
    return click.option(
        "--samples", type=click.IntRange(min=1), metavar="N", help="Number of synthesized samples. [default: 8]"
    )(function)
