"""A candidate far from the budget, proven beside those that are near it: few samples allow what all samples may not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from optim._engine.gate.budget import Budget
from optim._engine.search.state import Candidate, Measured

_SURE = 0.5
"""From the samples of a search to all of them drift grew by up to 1.7 times (BERT-base in 8 bits: .026 to .044)."""


def surest(finalists: Sequence[Candidate], others: Iterable[Measured], budget: Budget) -> list[Candidate]:
    """Returns the first of ``others`` that takes at most half of the budget, where each of the finalists takes more.

    Without it a search whose best breaks the budget at its very end has nothing to deliver.

    Args:
        finalists: what is to be proven.
        others: within the budget so far, the best first.
        budget: what the user accepts.
    """
    if not finalists or any(_is_sure(candidate, budget) for candidate in finalists):
        return []
    alike = (one.candidate for one in others if is_alike(one.candidate, finalists[0]))
    return [candidate for candidate in alike if _is_sure(candidate, budget)][:1]


def is_alike(one: Candidate, other: Candidate) -> bool:
    """Whether both take and give the same, so that they can be timed against one original."""
    return (one.recast is None) == (other.recast is None)


def _is_sure(candidate: Candidate, budget: Budget) -> bool:
    return not candidate.is_lossy or budget.excess(candidate.drift, candidate.task) <= _SURE
