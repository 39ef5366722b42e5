"""What ``--deliver`` and its companions say, on ``optim run`` and ``--pick``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from optim.cli_kit.names import LAYOUT_NAME
from optim.errors import OptimError

if TYPE_CHECKING:
    from optim._engine.runs.layouts.asked import Deliveries
    from optim._engine.search.settings import RunSettings

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

_HOW = (
    click.option(
        "--files", type=click.Path(path_type=Path), help="Folder with config, tokenizer and the like, for a layout."
    ),
    click.option(
        "--opened-by",
        type=click.Path(path_type=Path),
        help="The Python that has the program of a layout. [default: this]",
    ),
)


def how_options(function: Decorated) -> Decorated:
    """What a layout takes beside the result, and what opens it."""
    for option in reversed(_HOW):
        function = option(function)
    return function


def layout_options(function: Decorated) -> Decorated:
    """Layouts that a run writes its result in too."""
    asked = click.option(
        "--deliver",
        "layouts",
        multiple=True,
        type=LAYOUT_NAME,
        metavar="LAYOUT[:k=v,...]",
        help="Lay the result out for another program too, in a folder of that name; more than once for several.",
    )
    return asked(how_options(function))


def deliveries_of(words: Mapping[str, Any]) -> Deliveries | None:
    """What the user wrote; None where no layout was asked for.

    Raises:
        OptimError[conflicting-request]: it is said how, and not which.
    """
    texts = words["layouts"]
    said = [option for option, name in (("--files", "files"), ("--opened-by", "opened_by")) if words[name]]
    if not texts and said:
        raise OptimError.usage(
            "conflicting-request",
            f"{said[0]} is for a layout, and none was asked for",
            "--deliver is not there",
            "--deliver LAYOUT; optim plugins list --verbose shows which there are",
        )
    if not texts:
        return None
    from optim._engine.plugins.registry import load_registry
    from optim._engine.runs.layouts.asked import ask

    return ask(load_registry(), texts, words["files"], words["opened_by"])


def require_layouts(deliveries: Deliveries | None, settings: RunSettings, output: Path) -> None:
    """Refuse layouts that this run cannot write, before it begins."""
    if deliveries is not None:
        from optim._engine.runs.layouts.asked import require_deliverable
        from optim._engine.sources.kept_files import files_of

        require_deliverable(deliveries, files_of(settings.source, settings.export), output)
