"""A task metric: what a user really cares about, beside drift."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from optim.arrays import Feeds, Outputs


@dataclass(frozen=True, slots=True)
class Metric:
    """Accuracy, cosine of embeddings, word error rate, ...

    Attributes:
        name: what the user writes.
        higher_is_better: the direction.
        call: ``call(outputs, feeds, labels) -> float`` for one sample; averaged over samples.
    """

    name: str
    higher_is_better: bool
    call: Callable[[Outputs, Feeds, Feeds], float]
