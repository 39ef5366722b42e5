"""Names of passes, targets and plugins as arguments: the shell completes them; whether they exist is checked later."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from optim.errors import OptimError, unknown_name
from optim.passes import MODEL_STAGES, Stage

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from optim._engine.plugins.registry import Registry


class _Name(click.ParamType):  # type: ignore[type-arg]  # generic only in the newest click
    """A text whose completions come from the installed plugins."""

    def __init__(self, name: str, known: Callable[[Registry], Iterable[str]]) -> None:
        self.name = name
        self._known = known

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Returns what is installed and starts like that; nothing where that cannot be told: a shell wants no error."""
        from click.shell_completion import CompletionItem

        from optim._engine.plugins.registry import load_registry

        try:
            known = sorted(self._known(load_registry()))
        except OptimError:
            return []
        return [CompletionItem(name) for name in known if name.startswith(incomplete)]


class _Names(_Name):
    """Several names with commas between; the last is completed."""

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Returns what may stand for the last, behind those before it."""
        from click.shell_completion import CompletionItem

        before, comma, last = incomplete.rpartition(",")
        found = super().shell_complete(ctx, param, last)
        named = before.split(",")
        return [CompletionItem(before + comma + item.value) for item in found if item.value not in named]


def _pass_names(registry: Registry) -> Iterable[str]:
    from optim._engine.plugins.survey import survey_passes

    return (item.offered.name for item in survey_passes(registry))


def _conversions(registry: Registry) -> Iterable[str]:
    """Lossy passes, and the types that they make."""
    from optim._engine.plugins.survey import survey_passes

    offers = [item.offered for item in survey_passes(registry) if item.offered.stage in MODEL_STAGES]
    lossy = [offered for offered in offers if offered.over_models.lossy]
    return {offered.over_models.makes for offered in lossy if offered.over_models.makes} | {o.name for o in lossy}


def _goals(registry: Registry) -> Iterable[str]:
    from optim._engine.goals.known import goals

    return goals(registry)


PASS_NAME = _Name("pass", _pass_names)
TARGET_NAME = _Name("target", lambda registry: registry.targets())
TARGET_NAMES = _Names("target", lambda registry: ("auto", *registry.targets()))
GOAL_NAME = _Name("goal", _goals)
STAGE_NAME = _Name("stage", lambda registry: Stage)
METRIC_NAME = _Name("metric", lambda registry: registry.offered("metric"))
LAYOUT_NAME = _Name("layout", lambda registry: registry.offered("layout"))
POINT_NAME = _Name("point", lambda registry: ("fastest", "smallest", "most-accurate"))
CONVERSION_NAME = _Name("type or pass", _conversions)
PLUGIN_NAME = _Name("plugin", lambda registry: {plugin.name for plugin in registry.plugins})


def _disable(ctx: click.Context, param: click.Parameter, names: tuple[str, ...]) -> None:
    if not names:
        return
    from optim._engine.plugins.discovery import installed_names
    from optim._engine.plugins.permission import disable

    known = installed_names()
    unknown = [name for name in names if name not in known]
    if unknown and not ctx.resilient_parsing:  # a shell that completes wants no error
        raise unknown_name("plugin", unknown[0], known, fix="optim plugins list")
    disable(names)


def _disabling(*, hidden: bool) -> Callable[[Decorated], Decorated]:
    return click.option(
        "--disable-plugin",
        multiple=True,
        type=PLUGIN_NAME,
        is_eager=True,
        expose_value=False,
        callback=_disable,
        hidden=hidden,
        help="Ignore this installed plugin. Can be repeated.",
    )


disable_option = _disabling(hidden=False)
hidden_disable_option = _disabling(hidden=True)
"""For a command that takes the option of ``optim`` itself too."""
