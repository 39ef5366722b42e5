"""The order of the passes of one stage: the same on every machine, with the reason for each place.

``before`` and ``after`` name passes, or all of a plugin by ``plugin:*``; where they leave a choice, names decide. A
name that no installed plugin offers in this stage is ignored, and reported as unresolved. A pass that names another
explicitly means it: its own ``plugin:*`` then does not cover that one.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter

from optim._engine.plugins.offers import OfferedPass
from optim.errors import OptimError


@dataclass(frozen=True, slots=True)
class OrderedPass:
    """A pass in its place.

    Attributes:
        reasons: why it stands where it stands, one sentence each.
        unresolved: names in its ``before`` and ``after`` that nothing in this stage answers to.
    """

    offered: OfferedPass
    reasons: tuple[str, ...]
    unresolved: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name of the pass."""
        return self.offered.name


@dataclass(slots=True)
class _Constraints:
    """Who must come before whom, and who says so."""

    by_name: dict[str, OfferedPass]
    said_by: dict[tuple[str, str], str] = field(default_factory=dict)
    unresolved: dict[str, list[str]] = field(default_factory=dict)

    def read(self, offered: OfferedPass) -> None:
        after, before = offered.pass_class.after, offered.pass_class.before
        for other in self._resolve(offered, after, but_not=before):
            self.said_by.setdefault((other, offered.name), offered.name)
        for other in self._resolve(offered, before, but_not=after):
            self.said_by.setdefault((offered.name, other), offered.name)

    def _resolve(self, offered: OfferedPass, names: Sequence[str], but_not: Sequence[str]) -> list[str]:
        found: list[str] = []
        for name in names:
            plugin, wildcard, _ = name.partition(":*")
            if wildcard:
                matches = [
                    other.name
                    for other in self.by_name.values()
                    if other.plugin.name == plugin and other.name != offered.name and other.name not in but_not
                ]
            else:
                matches = [name] if name in self.by_name else []
            if not matches:
                self.unresolved.setdefault(offered.name, []).append(name)
            found += matches
        return found


def order(passes: Iterable[OfferedPass]) -> list[OrderedPass]:
    """Order the passes of one stage.

    Raises:
        OptimError[order-cycle]: what the passes ask for contradicts itself; names both ends and their packages.
    """
    constraints = _read(passes)
    return [
        OrderedPass(constraints.by_name[name], _reasons(name, constraints), tuple(constraints.unresolved.get(name, ())))
        for name in _sorted(constraints)
    ]


def unresolved_names(passes: Iterable[OfferedPass]) -> dict[str, tuple[str, ...]]:
    """By pass of one stage, the names in its ``before`` and ``after`` that nothing in the stage answers to."""
    return {name: tuple(names) for name, names in _read(passes).unresolved.items()}


def _read(passes: Iterable[OfferedPass]) -> _Constraints:
    constraints = _Constraints({offered.name: offered for offered in sorted(passes, key=lambda offered: offered.name)})
    for offered in constraints.by_name.values():
        constraints.read(offered)
    return constraints


def _sorted(constraints: _Constraints) -> list[str]:
    sorter: TopologicalSorter[str] = TopologicalSorter(dict.fromkeys(constraints.by_name, ()))
    for first, second in sorted(constraints.said_by):
        sorter.add(second, first)
    try:
        sorter.prepare()
    except CycleError as error:
        raise _cycle(error.args[1], constraints) from None
    ready: list[str] = []
    names: list[str] = []
    while sorter.is_active():
        for name in sorter.get_ready():
            heapq.heappush(ready, name)
        names.append(heapq.heappop(ready))
        sorter.done(names[-1])
    return names


def _reasons(name: str, constraints: _Constraints) -> tuple[str, ...]:
    reasons = []
    for (first, second), speaker in sorted(constraints.said_by.items()):
        if name == second:
            reasons.append(f"after {first}" + ("" if speaker == name else f", as {speaker} asks"))
        elif name == first:
            reasons.append(f"before {second}" + ("" if speaker == name else f", as {speaker} asks"))
    return tuple(reasons) or ("by name: nothing orders it",)


def _cycle(names: Sequence[str], constraints: _Constraints) -> OptimError:
    """The error for a cycle; ``names`` starts and ends with the same pass, each one before the next."""
    turn = names.index(min(names[:-1]))
    ring = [*names[:-1][turn:], *names[:-1][:turn]]
    steps, releases, plugins = [], [], []
    for first, second in zip(ring, [*ring[1:], ring[0]], strict=True):
        speaker = constraints.by_name[constraints.said_by[first, second]]
        side = f"before {second}" if speaker.name == first else f"after {first}"
        if first == second:
            side = "before or after itself"
        steps.append(f"{speaker.name} ({speaker.plugin.release}) asks to run {side}")
        releases.append(speaker.plugin.release)
        plugins.append(speaker.plugin.name)
    stage = constraints.by_name[ring[0]].stage
    return OptimError.usage(
        "order-cycle",
        f"{' and '.join(ring)} of stage {stage} cannot be ordered",
        "; ".join(steps),
        f"OPTIM_DISABLE_PLUGINS={max(plugins)} leaves that plugin out until it is repaired",
        ", ".join(dict.fromkeys(releases)),
    )
