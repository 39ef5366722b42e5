"""The budget: how much drift is accepted, and the words for a candidate that breaks it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from optim.gate.drift import OutputComparison, worst_drift

DEFAULT_MAX_DRIFT = 0.05


@dataclass(frozen=True, slots=True)
class Budget:
    """What the user accepts.

    Attributes:
        max_drift: of a chain with a lossy pass, relative L2; None with ``--lossless``.
        tolerance: of a chain without one, measured on the original itself.
    """

    max_drift: float | None
    tolerance: float

    def limit(self, lossy: bool) -> float:
        """Largest relative L2 for a chain; a lossy chain is held to the user's budget, never to less than rounding."""
        if lossy and self.max_drift is not None:
            return max(self.max_drift, self.tolerance)
        return self.tolerance

    def objection(self, comparisons: Iterable[OutputComparison], lossy: bool) -> str:
        """Why the outputs are not right, in one sentence; empty where they are."""
        comparisons = list(comparisons)
        for comparison in comparisons:
            if comparison.problem:
                return f"output '{comparison.name}': {comparison.problem}"
            own = max(comparison.limit or 0.0, self.tolerance)
            if comparison.limit is not None and comparison.relative_l2 > own:
                far = f"drift {comparison.relative_l2:.3g} at output '{comparison.name}'"
                return f"{far} is beyond what its pass says of it ({own:.3g})"
        limit = self.limit(lossy)
        drift = worst_drift(comparisons).relative_l2
        if drift <= limit:
            return ""
        worst = max((c for c in comparisons if c.limit is None), key=lambda comparison: comparison.relative_l2)
        bound = "the budget" if lossy and self.max_drift is not None else "what rounding explains"
        return f"drift {drift:.3g} at output '{worst.name}' is beyond {bound} ({limit:.3g})"
