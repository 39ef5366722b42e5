"""The order of the passes of one stage: the same on every machine, with the reason for each place.

``before`` and ``after`` name passes, or all of a plugin by ``plugin:*``; where they leave a choice, names decide. A
name that no installed plugin offers in this stage is ignored, and reported as unresolved. A pass that names another
explicitly means it: its own ``plugin:*`` then does not cover that one.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import chain
from typing import TypeAlias

from optim._engine.plugins.offers import OfferedPass
from optim.errors import OptimError


@dataclass(frozen=True, slots=True)
class OrderedPass:
    """A pass in its place.

    Attributes:
        reasons: why it stands where it stands, one sentence each.
    """

    offered: OfferedPass
    reasons: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name of the pass."""
        return self.offered.name


SaidBy: TypeAlias = dict[tuple[str, str], str]
"""Which pass says that the first of two must come before the second."""


def order(passes: Iterable[OfferedPass]) -> list[OrderedPass]:
    """Order the passes of one stage.

    Raises:
        OptimError[order-cycle]: what the passes ask for contradicts itself; names both ends and their packages.
    """
    by_name, said_by = _by_name(passes), SaidBy()
    for name, offered in by_name.items():
        after, before = _meant(offered, by_name)
        for other in chain(*after.values()):
            said_by.setdefault((other, name), name)
        for other in chain(*before.values()):
            said_by.setdefault((name, other), name)
    return [OrderedPass(by_name[name], _reasons(name, said_by)) for name in _sorted(by_name, said_by)]


def unresolved_names(passes: Iterable[OfferedPass]) -> dict[str, tuple[str, ...]]:
    """By pass of one stage, the names in its ``before`` and ``after`` that nothing in the stage answers to."""
    by_name = _by_name(passes)
    found = {
        name: tuple(written for side in _meant(offered, by_name) for written, others in side.items() if not others)
        for name, offered in by_name.items()
    }
    return {name: written for name, written in found.items() if written}


def _by_name(passes: Iterable[OfferedPass]) -> dict[str, OfferedPass]:
    return {offered.name: offered for offered in sorted(passes, key=lambda offered: offered.name)}


def _meant(offered: OfferedPass, by_name: Mapping[str, OfferedPass]) -> tuple[dict[str, list[str]], ...]:
    """Returns the passes that each name in ``after`` and each in ``before`` stands for."""

    def passes_of(name: str, but_not: Sequence[str]) -> list[str]:
        plugin, star, _ = name.partition(":*")
        if not star:
            return [name] if name in by_name else []
        alike = [one.name for one in by_name.values() if one.plugin.name == plugin]
        return [other for other in alike if other != offered.name and other not in but_not]

    after, before = offered.pass_class.after, offered.pass_class.before
    return {name: passes_of(name, before) for name in after}, {name: passes_of(name, after) for name in before}


def _sorted(by_name: Mapping[str, OfferedPass], said_by: SaidBy) -> list[str]:
    sorter: TopologicalSorter[str] = TopologicalSorter(dict.fromkeys(by_name, ()))
    for first, second in sorted(said_by):
        sorter.add(second, first)
    try:
        sorter.prepare()
    except CycleError as error:
        raise _cycle(error.args[1], by_name, said_by) from None
    ready: list[str] = []
    names: list[str] = []
    while sorter.is_active():
        for name in sorter.get_ready():
            heapq.heappush(ready, name)
        names.append(heapq.heappop(ready))
        sorter.done(names[-1])
    return names


def _reasons(name: str, said_by: SaidBy) -> tuple[str, ...]:
    reasons = [
        (f"after {first}" if name == second else f"before {second}") + ("" if one == name else f", as {one} asks")
        for (first, second), one in sorted(said_by.items())
        if name in (first, second)
    ]
    return tuple(reasons) or ("by name: nothing orders it",)


def _cycle(names: Sequence[str], by_name: Mapping[str, OfferedPass], said_by: SaidBy) -> OptimError:
    """The error for a cycle; ``names`` starts and ends with the same pass, each one before the next."""
    turn = names.index(min(names[:-1]))
    ring = [*names[:-1][turn:], *names[:-1][:turn]]
    steps, releases, plugins = [], [], []
    for first, second in zip(ring, [*ring[1:], ring[0]], strict=True):
        speaker = by_name[said_by[first, second]]
        side = f"before {second}" if speaker.name == first else f"after {first}"
        if first == second:
            side = "before or after itself"
        steps.append(f"{speaker.name} ({speaker.plugin.release}) asks to run {side}")
        releases.append(speaker.plugin.release)
        plugins.append(speaker.plugin.name)
    stage = by_name[ring[0]].stage
    return OptimError.usage(
        "order-cycle",
        f"{' and '.join(ring)} of stage {stage} cannot be ordered",
        "; ".join(steps),
        f"OPTIM_DISABLE_PLUGINS={max(plugins)} leaves that plugin out until it is repaired",
        ", ".join(dict.fromkeys(releases)),
    )
