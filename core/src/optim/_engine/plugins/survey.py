"""All that can be said about each plugin, for ``optim plugins list`` and ``show``: asked for every target."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from optim._engine.plugins.offers import OfferedPass
from optim._engine.plugins.ordering import order, unresolved_names
from optim._engine.plugins.plugin import LoadedPlugin, Problem, State
from optim._engine.plugins.registry import Registry
from optim.errors import OptimError
from optim.passes import Stage

if TYPE_CHECKING:
    from optim.isolation.environments import Environment


_KINDS = ("target", "backend", "metric", "layout", "goal", "command")


@dataclass(frozen=True, slots=True)
class SurveyedPass:
    """A pass as the listings show it.

    Attributes:
        place: its place in its stage, from 1, if every pass that is installed took part; 0 where a cycle leaves none.
        unresolved: names in its ``before`` and ``after`` that no pass of its stage answers to.
    """

    offered: OfferedPass
    targets: tuple[str, ...]
    place: int
    unresolved: tuple[str, ...]

    @property
    def running(self) -> tuple[int, int]:
        """Key that sorts passes in the order in which they run."""
        return tuple(Stage).index(self.offered.stage), self.place


@dataclass(frozen=True, slots=True)
class SurveyedPlugin:
    """A plugin with what it offers, names sorted.

    Attributes:
        plugin: as loaded; ``unavailable`` where it adds targets and none of them can be used here, ``not-installed``
            where it is isolated and has no environment.
        names: of what else it adds than passes, by kind: ``targets``, ``backends`` and so on.
        environment: of an isolated plugin, if it is there and fits the plugin's version.
    """

    plugin: LoadedPlugin
    passes: tuple[SurveyedPass, ...]
    names: Mapping[str, tuple[str, ...]]
    problems: tuple[Problem, ...]
    environment: Environment | None

    @property
    def runs(self) -> str:
        """Where its passes run: ``here``, in optim's own environment, or ``isolated``, in one of their own."""
        if self.plugin.implementation is None:
            return ""
        return "isolated" if self.plugin.isolation else "here"


def survey_passes(registry: Registry) -> list[SurveyedPass]:
    """The passes for any target, by stage and then by name."""
    targets_of: dict[str, list[str]] = {}
    found: dict[str, OfferedPass] = {}
    for target in registry.targets().values():
        for offered in registry.offers(target):
            found.setdefault(offered.name, offered)
            targets_of.setdefault(offered.name, []).append(target.name)
    stages = tuple(Stage)
    unresolved: dict[str, tuple[str, ...]] = {}
    places: dict[str, int] = {}
    for stage in stages:
        passes = [offered for offered in found.values() if offered.stage is stage]
        unresolved |= unresolved_names(passes)
        with contextlib.suppress(OptimError):  # a cycle: told by who orders them to run them
            places |= {ordered.name: place for place, ordered in enumerate(order(passes), start=1)}
    return [
        SurveyedPass(
            offered, tuple(targets_of[offered.name]), places.get(offered.name, 0), unresolved.get(offered.name, ())
        )
        for offered in sorted(found.values(), key=lambda offered: (stages.index(offered.stage), offered.name))
    ]


def survey_plugins(registry: Registry) -> list[SurveyedPlugin]:
    """Every plugin with everything it offers, by name and then by package."""
    from optim.isolation.environments import find_environment

    passes = survey_passes(registry)
    kinds = {f"{kind}s": registry.offered(kind) for kind in _KINDS}
    found = []
    for plugin in registry.plugins:
        names = {
            kind: tuple(name for name, offer in offers.items() if offer.plugin == plugin.info)
            for kind, offers in kinds.items()
        }
        environment = find_environment(plugin.isolation) if plugin.isolation else None
        found.append(
            SurveyedPlugin(
                _seen_here(plugin, registry, names["targets"], environment),
                tuple(one for one in passes if one.offered.plugin == plugin.info),
                names,
                tuple(problem for problem in registry.problems if problem.plugin == plugin.info),
                environment,
            )
        )
    return found


def _seen_here(
    plugin: LoadedPlugin, registry: Registry, targets: tuple[str, ...], environment: Environment | None
) -> LoadedPlugin:
    """Returns the plugin; of one that cannot be used on this machine, with another state and the reason."""
    if plugin.state is not State.OK:
        return plugin
    if plugin.isolation is not None and environment is None:
        why = f"it has no environment that fits its version: optim plugins install {plugin.name}"
        return replace(plugin, state=State.NOT_INSTALLED, reason=why)
    reasons = [registry.unavailable(registry.target(name)) for name in targets]
    if not targets or None in reasons:
        return plugin
    why = "; ".join(f"{name}: {reason}" for name, reason in zip(targets, reasons, strict=True))
    return replace(plugin, state=State.UNAVAILABLE, reason=why)
