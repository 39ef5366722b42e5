"""What a repair finds: the nodes that a lossy pass leaves alone, or why there are none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

REPAIRABLE = 20.0
"""Drift beyond the budget by more than this factor is not repaired."""

MOST_WORK_KEPT = 0.9
"""A repair that leaves more of the work in float gains nothing."""

PART_FOR_THE_METRIC = 0.5
"""What a loss takes in drift is not known: half of the drift is tried."""


@dataclass(frozen=True, slots=True)
class Repair:
    """What was found.

    Attributes:
        keep: names of nodes to leave alone, in graph order; empty where nothing fits.
        drift: with them left alone.
        evaluations: drifts measured by applying the pass.
        estimates: drifts estimated without applying it.
        work: share of the work of all nodes that these do, 0..1; of their number where work is unknown.
        finer: names of nodes in a precision between, in graph order; they are not in ``keep``.
        between: share of the work that nodes in ``finer`` do, 0..1.
        rough: whether it is what held when the time was over: with more time less work is left alone.
    """

    keep: tuple[str, ...]
    drift: float
    evaluations: int
    estimates: int = 0
    work: float = 0.0
    finer: tuple[str, ...] = ()
    between: float = 0.0
    rough: bool = False

    def text(self, kept: str) -> str:
        """What was found and what that took, for the report; ``kept`` is where nodes are left."""
        nodes = "1 node" if len(self.keep) == 1 else f"{len(self.keep)} nodes"
        took = "1 evaluation" if self.evaluations == 1 else f"{self.evaluations} evaluations"
        estimates = f" and {self.estimates} estimates" if self.estimates else ""
        finer = f", {len(self.finer)} in a finer precision" if self.finer else ""
        return f"repaired: {nodes} left {kept}, {self.work:.0%} of the work{finer}; found in {took}{estimates}"


@dataclass(frozen=True, slots=True)
class MeasuredSet:
    """A set of nodes that a repair measured.

    Attributes:
        keep: how many are left alone.
        of: how many there are.
        drift: with them left alone.
    """

    keep: int
    of: int
    drift: float


def why_none(measured: Sequence[MeasuredSet], limit: float, kept: str, seconds: float) -> str:
    """Why no set of nodes is a repair, by what was measured; ``kept`` is where nodes are left."""
    sets = [one for one in measured if one.keep < one.of]
    whole = min((one.drift for one in measured if one.keep == one.of), default=None)
    if whole is not None and whole > limit:
        return f"even with all nodes left {kept} the drift is {whole:.3g}"
    if not sets:
        return f"no set of nodes to leave {kept} was measured in {seconds:.0f} s"
    count = "the set of nodes" if len(sets) == 1 else f"the nearest of {len(sets)} sets of nodes"
    nearest = min(sets, key=lambda one: (max(one.drift, limit), one.keep))
    told = f"{count} measured in {seconds:.0f} s leaves {nearest.keep} of {nearest.of} nodes {kept}"
    told += ", nearly all of the work," if nearest.drift <= limit else ""
    told += f" and drifts {nearest.drift:.3g}"
    return told if whole is None else f"{told}; with all nodes left {kept} the drift is {whole:.3g}"


class OutOfEvaluations(Exception):  # noqa: N818 - a signal, not an error
    """The evaluation budget is spent."""


class OutOfEstimates(OutOfEvaluations):
    """As many drifts were estimated as may be: others can still be measured."""


def prices(nodes: Sequence[str], work: Mapping[str, float]) -> dict[str, float]:
    """What leaving a node alone costs: its share of the work, and something for being one more."""
    known = [work[name] for name in nodes if work.get(name)]
    mean = sum(known) / len(known) if known else 1.0
    return {name: work.get(name, mean) / mean + 0.1 for name in nodes}
