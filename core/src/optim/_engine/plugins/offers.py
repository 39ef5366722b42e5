"""Asks the plugins, one by one: an exception belongs to its plugin and costs only that offer.

What comes back is checked before anybody uses it; what does not fit becomes a :class:`Problem`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pluggy

from optim._engine.plugins.guard import UnrulyError, limited
from optim._engine.plugins.plugin import LoadedPlugin, PluginInfo, Problem
from optim._engine.stdout import stdout_on_stderr
from optim.errors import describe_exception
from optim.passes import Pass, Stage
from optim.source_passes import AnyPass


@dataclass(frozen=True, slots=True)
class OfferedPass:
    """A pass with where it comes from."""

    pass_class: AnyPass
    stage: Stage
    plugin: PluginInfo

    @property
    def name(self) -> str:
        """The name of the pass, e.g. ``ort.clean``."""
        return self.pass_class.name

    @property
    def over_models(self) -> type[Pass]:
        """Its class, of a stage that changes models.

        Raises:
            TypeError: it is of a stage before there is a model.
        """
        if not issubclass(self.pass_class, Pass):
            raise TypeError(f"{self.name} is not a pass over models")
        return self.pass_class


@dataclass(frozen=True, slots=True)
class Offer:
    """One thing that one plugin offers.

    Attributes:
        name: what users call it.
    """

    name: str
    value: Any
    hook: str
    plugin: PluginInfo


Check = Callable[[Any, PluginInfo], str]
"""Why a value that a hook returned cannot be used; empty where it can."""


class HookCaller:
    """Calls hooks and collects what went wrong."""

    def __init__(self, manager: pluggy.PluginManager, plugins: Iterable[LoadedPlugin]) -> None:
        self._manager = manager
        self._infos = {plugin.name: plugin.info for plugin in plugins if plugin.implementation is not None}
        self.problems: list[Problem] = []

    def ask(self, hook: str, check: Check, name_of: Callable[[Any], str], **arguments: object) -> list[Offer]:
        """Returns what every plugin returns from a hook, as far as it is sound; by plugin name."""
        offers = []
        with stdout_on_stderr():
            for info, items in self._answers(hook, arguments):
                for item in items:
                    defect = check(item, info)
                    if defect:
                        self.report(Problem(info, hook, defect, _subject(item)))
                    else:
                        offers.append(Offer(name_of(item), item, hook, info))
        return offers

    def report(self, problem: Problem) -> None:
        """Remember a problem; the same one (a hook is asked for each target) only once."""
        if problem not in self.problems:
            self.problems.append(problem)

    def _answers(self, hook: str, arguments: Mapping[str, object]) -> Iterator[tuple[PluginInfo, list[object]]]:
        implementations = getattr(self._manager.hook, hook).get_hookimpls()
        for implementation in sorted(implementations, key=lambda one: str(one.plugin_name)):
            info = self._infos[implementation.plugin_name]
            try:
                with limited(info.name, hook):
                    answer = implementation.function(*(arguments[name] for name in implementation.argnames))
                    items = list(answer) if isinstance(answer, Sequence) and not isinstance(answer, str) else None
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # a plugin may raise anything
                why = str(error) if isinstance(error, UnrulyError) else f"raised {describe_exception(error)}"
                self.report(Problem(info, hook, why))
                continue
            if items is None:
                kind = "None" if answer is None else f"something of type {type(answer).__name__}"
                self.report(Problem(info, hook, f"returned {kind}, not a sequence"))
            else:
                yield info, items


def _subject(item: object) -> str:
    name = getattr(item, "name", "")
    return name if isinstance(name, str) else ""
