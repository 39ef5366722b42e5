"""Bounds of the user on figures of a model: ``--max-size``, ``--max-memory`` and ``--max-latency``.

A bound names the goal that owns its figure, and that goal says what the figure of a candidate is. A candidate meets a
bound only if all of the figure's interval lies within it. An interval on both sides of the bound decides nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from optim._engine.goals.known import OWN_GOALS
from optim.cli_kit.output import size_text
from optim.errors import OptimError
from optim.goal import Amount, Basis, Goal, ModelFigures

FIELDS = {"size": "max_size", "memory": "max_memory", "latency": "max_latency_ms"}
"""Goals whose figures can be bounded, and what a recipe and Python call the bound; ``--max-`` and the goal is the
option."""

_UNITS = {
    "B": {
        **{"": 1.0, "b": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12},
        **{"kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12},
        **{"kib": 2.0**10, "mib": 2.0**20, "gib": 2.0**30, "tib": 2.0**40},
    },
    "ms": {"": 1.0, "ms": 1.0, "s": 1e3, "us": 1e-3, "\u00b5s": 1e-3, "\u03bcs": 1e-3},
}
_HOW = {
    "B": "write a number above 0 with B, kB, MB, GB, KiB, MiB or GiB; without a unit it is bytes",
    "ms": "write a number above 0 with us, ms or s; without a unit it is milliseconds",
}
_EXAMPLES = {"size": "50MB", "memory": "200MB", "latency": "20ms"}


class BoundVerdict(StrEnum):
    """How a figure stands to its bound."""

    MEETS = "meets"
    UNDECIDED = "undecided"
    BEYOND = "beyond"


@dataclass(frozen=True, slots=True)
class Bound:
    """The most that a figure of the result may be.

    Attributes:
        figure: name of the goal that owns it.
        most: in the unit of that goal, bytes or milliseconds.
    """

    figure: str
    most: float

    @property
    def goal(self) -> Goal:
        """That owns the figure."""
        return OWN_GOALS[self.figure]

    @property
    def text(self) -> str:
        """As the user may type it, ``--max-size 50MB``."""
        return f"--max-{self.figure} {_typed(self.most, self.goal.unit)}"

    def standing(self, found: ModelFigures) -> BoundVerdict:
        """How a model stands to it; undecided also where the figure was not measured."""
        amount = self.goal.amount(found)
        if amount is None or not amount.is_sure:
            return BoundVerdict.UNDECIDED
        if amount.high <= self.most:
            return BoundVerdict.MEETS
        return BoundVerdict.BEYOND if amount.low > self.most else BoundVerdict.UNDECIDED

    def objection(self, found: ModelFigures) -> str:
        """Why a model is not known to meet it, with the figure; empty if it does."""
        standing = self.standing(found)
        if standing is BoundVerdict.MEETS:
            return ""
        amount = self.goal.amount(found)
        if amount is None:
            return f"{self.figure} was not measured, so {self.text} is undecided"
        said = f"{self.figure} {amount_text(amount, self.goal.unit)}"
        return (
            f"{said} is beyond {self.text}" if standing is BoundVerdict.BEYOND else f"{said}: {self.text} is undecided"
        )

    def excess(self, found: ModelFigures) -> float:
        """The logarithm of the factor by which a model breaks it at least; 0 if it may meet it, or was not measured."""
        amount = self.goal.amount(found)
        return max(0.0, math.log(amount.low / self.most)) if amount is not None and amount.low > 0 else 0.0


def amount_text(amount: Amount, unit: str) -> str:
    """E.g. ``22.9 MB``, ``20.3 ms [19.8, 21.1]``."""
    if unit == "B":
        return size_text(amount.value)
    interval = f" [{amount.low:.3g}, {amount.high:.3g}]" if amount.is_sure else " in too few rounds for an interval"
    return f"{amount.value:.3g} ms{interval}"


def parse_bound(figure: str, said: str | float) -> Bound:
    """A bound as the user says it: ``50MB``, ``20ms``, or a number of bytes or milliseconds."""
    goal = OWN_GOALS[figure]
    most = parse_amount(said, goal.unit)
    if not 0 < most < math.inf:
        raise OptimError.usage(
            "bad-budget", f"--max-{figure} cannot be {said}", _HOW[goal.unit], f"--max-{figure} {_EXAMPLES[figure]}"
        )
    return Bound(figure, most)


def parse_amount(said: str | float, unit: str) -> float:
    """A number of bytes or milliseconds as the user says it, such as ``20GB``; not a number if it is no such thing."""
    found = re.fullmatch(r"([0-9.]+(?:e[+-]?[0-9]+)?)\s*([a-z\u00b5\u03bc]*)", str(said).strip().lower())
    try:
        return float(found[1]) * _UNITS[unit][found[2]] if found is not None else math.nan
    except (KeyError, ValueError):
        return math.nan


def said_bounds(said: Mapping[str, Any]) -> tuple[Bound, ...]:
    """The bounds among words of the user, by their field; what is None was not said."""
    return tuple(parse_bound(figure, said[name]) for figure, name in FIELDS.items() if said.get(name) is not None)


def fields_of(bounds: Iterable[Bound]) -> dict[str, Any]:
    """The bounds by their field, in bytes and milliseconds, as a lock has them."""
    return {FIELDS[one.figure]: int(one.most) if one.goal.unit == "B" else one.most for one in bounds}


def merged(bounds: Iterable[Bound], others: Iterable[Bound]) -> tuple[Bound, ...]:
    """The bounds, in one order; one of ``others`` overrides one on the same figure."""
    by_figure = {bound.figure: bound for bound in (*bounds, *others)}
    return tuple(by_figure[figure] for figure in FIELDS if figure in by_figure)


def judged_by_core(bounds: Iterable[Bound], takes: Collection[str]) -> tuple[Bound, ...]:
    """The bounds without a latency limit that the goal takes, as throughput does, and keeps to itself."""
    return tuple(bound for bound in bounds if FIELDS[bound.figure] not in takes)


def require_bounds(goal: Goal, bounds: Sequence[Bound], untimed: Iterable[str]) -> None:
    """Refuse bounds that nothing can be measured for, and the goal accuracy without any."""
    if goal.basis is Basis.ACCURACY and not bounds:
        raise OptimError.usage(
            "conflicting-request",
            "--goal accuracy needs a bound",
            "without a bound the original is the most accurate model",
            "add --max-size 50MB, --max-memory 200MB or --max-latency 20ms",
        )
    where = next(iter(untimed), "")
    measured = next((one for one in bounds if one.figure != "size"), None)
    if where and measured is not None:
        raise OptimError.usage(
            "conflicting-request",
            f"{measured.text} cannot be judged on target {where}",
            "optim measures neither latency nor memory on a simulated or absent device",
            f"leave out --max-{measured.figure}, or name another --target",
        )
    if where and goal.basis is Basis.ACCURACY:
        raise OptimError.usage(
            "conflicting-request",
            f"--goal accuracy cannot be decided on target {where}",
            "optim takes the first candidate that is right if it cannot time the target",
            "use --goal size, or name another --target",
        )


def _typed(most: float, unit: str) -> str:
    if unit != "B":
        return f"{most:g}ms"
    units = (("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1.0))
    name, size = next(((name, size) for name, size in units if most >= size), units[-1])
    return f"{most / size:.6g}{name}"
