"""What a repair finds, a precision for each node, and what that costs; or why there is none."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

REPAIRABLE = 20.0
"""Drift beyond the budget by more than this factor is not repaired."""

MOST_WORK_KEPT = 0.9
"""A repair that leaves more of the work in float gains nothing."""

FINER_PRICE = 0.4
"""Of what a node in float costs beyond one in the pass's precision: 0.3 of it measured with activations of 16 bits on
AVX512-VNNI, where 8 bits are fastest. With less, slower machines get what they gain nothing by."""

SEAM = 0.6
"""What a change of precision between neighbours costs, in the work of an average node.

Values are converted there, and sums and activations between stay in float too. PP-OCRv6's detector took 0.95 of the
processor time of floats with 40 convolutions here and there in float, 0.73 with 35 nearly all in one stretch, both at a
drift of 0.045 and less.
"""

SHARE_TO_LEARN = 0.5
"""The share of the time, or of the evaluations, that measures what nodes cost; the rest measures what that proposes."""

A_LITTLE = 0.01
"""Of the budget. A repair aims so much below it, since session settings that come later move the drift a little. It
aims so much lower still after a miss: a BERT-base was measured at 1.009, 1.008 and 0.998 of its goal, 8 s each."""

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
    """A set of nodes that a repair measured."""

    keep: int
    of: int
    drift: float


def why_none(measured: Sequence[MeasuredSet], limit: float, kept: str, seconds: float) -> str:
    """Why no set of nodes is a repair, by what was measured; ``kept`` is where nodes are left."""
    sets = [one for one in measured if one.keep < one.of]
    whole = min((one.drift for one in measured if one.keep == one.of), default=None)
    if whole is not None and whole > limit:
        return f"even with all nodes left {kept} the drift is {whole:.3g}"
    if measured and all(one.of == 1 for one in measured):
        return f"it changes one node, and a repair would leave that {kept}"
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


@dataclass(frozen=True, slots=True)
class NodePrecisions:
    """A precision for each node: left alone, in the one between, or, as all others, in the pass's."""

    keep: frozenset[str] = frozenset()
    finer: frozenset[str] = frozenset()

    def lowered(self, names: Iterable[str], refinable: frozenset[str]) -> NodePrecisions:
        """The same with these nodes one precision lower."""
        group = frozenset(names)
        down = group & self.keep & refinable
        return NodePrecisions(self.keep - group, self.finer - group | down)


class Prices:
    """What a choice costs: the work that it leaves in a higher precision, and changes of precision.

    A node costs its share of the work, and something for being one more; 1.1 is the average node.

    Args:
        nodes: that are decided, in graph order.
        work: how much each computes, in any unit; unknown ones count as the average.
        chained: nodes that hand on what they make in the pass's precision to the next of them, in graph order.
    """

    def __init__(self, nodes: Sequence[str], work: Mapping[str, float], chained: Sequence[str] = ()) -> None:
        known = [work[name] for name in nodes if work.get(name)]
        mean = sum(known) / len(known) if known else 1.0
        self._of = {name: work.get(name, mean) / mean + 0.1 for name in nodes}
        self._whole = max(1e-12, sum(self._of.values()))
        self._chained = chained

    def of(self, names: Iterable[str]) -> float:
        """What leaving these nodes alone costs, without changes of precision."""
        return sum(self._of[name] for name in names)

    def share(self, names: Iterable[str]) -> float:
        """The same of what leaving all alone costs, 0..1."""
        return self.of(names) / self._whole

    def cost(self, choice: NodePrecisions) -> float:
        """What a choice costs."""
        return self.of(choice.keep) + FINER_PRICE * self.of(choice.finer) + SEAM * seams(self._chained, choice.keep)

    def repair(self, choice: NodePrecisions, drift: float, evaluations: int, *, rough: bool = False) -> Repair:
        """A choice that holds, as it is answered."""
        keep, finer = (tuple(name for name in self._of if name in names) for names in (choice.keep, choice.finer))
        return Repair(keep, drift, evaluations, 0, self.share(keep), finer, self.share(finer), rough)


def seams(chained: Sequence[str], kept: Collection[str]) -> int:
    """How often the precision changes along nodes that hand on what they make, in graph order."""
    return sum((a in kept) != (b in kept) for a, b in pairwise(chained))
