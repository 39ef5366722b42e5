"""The option ``--deliver`` and those that belong to it, for ``optim run``, ``pick`` and ``deliver``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from optim.cli_kit.names import LAYOUT_NAME
from optim.errors import OptimError

if TYPE_CHECKING:
    from optim._engine.runs.delivering import LayoutRequest

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

_HOW = (
    click.option(
        "--files",
        type=click.Path(path_type=Path),
        help="Folder with config and tokenizer for a layout. [default: that of the source]",
    ),
    click.option(
        "--python",
        "opened_by",
        type=click.Path(path_type=Path),
        help="Python interpreter that has the program of a layout. [default: this one]",
    ),
)


def how_options(function: Decorated) -> Decorated:
    """The files that a layout copies, and the Python that opens it."""
    for option in reversed(_HOW):
        function = option(function)
    return function


def layout_options(function: Decorated) -> Decorated:
    """The layouts that a run also writes."""
    asked = click.option(
        "--deliver",
        "layouts",
        multiple=True,
        type=LAYOUT_NAME,
        metavar="LAYOUT[:k=v,...]",
        help="Also write the result for another program; optim layouts lists them. Can be repeated.",
    )
    return asked(how_options(function))


def layouts_of(words: Mapping[str, Any]) -> LayoutRequest | None:
    """What the user wrote; None where no layout was asked for.

    Raises:
        OptimError[conflicting-request]: it is said how, and not which.
    """
    texts = words["layouts"]
    said = [option for option, name in (("--files", "files"), ("--python", "opened_by")) if words[name]]
    if not texts and said:
        raise OptimError.usage(
            "conflicting-request",
            f"{said[0]} needs a layout",
            "--deliver is missing",
            "add --deliver LAYOUT; optim layouts lists them",
        )
    if not texts:
        return None
    from optim._engine.runs.delivering import LayoutRequest

    return LayoutRequest(tuple(texts), words["files"], words["opened_by"])
