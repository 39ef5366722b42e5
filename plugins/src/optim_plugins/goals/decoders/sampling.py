"""The next token of each row, from its logits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optim.arrays import Array


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are chosen.

    Attributes:
        greedy: the likeliest; nothing else counts then.
        temperature: logits are divided by it, > 0; below 1 the likely become likelier.
        top_k: only so many are drawn from; 0: all.
        top_p: only the fewest whose probabilities add up to this are drawn from, 0..1.
    """

    greedy: bool = True
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0

    def __post_init__(self) -> None:
        """Refuse what is no distribution."""
        if not 0 < self.temperature < float("inf"):
            raise ValueError(f"temperature is {self.temperature}, and must be positive: the likeliest come greedily")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p is {self.top_p}, and must be above 0 and at most 1")
        if self.top_k < 0:
            raise ValueError(f"top_k is {self.top_k}, and must be 0, for all tokens, or more")


def choose(logits: Array, sampling: Sampling, random: np.random.Generator) -> NDArray[np.int64]:
    """One token for each row.

    Args:
        logits: shape (batch, vocabulary).
        sampling: how.
        random: drawn from where it is not greedy.
    """
    if sampling.greedy:
        likeliest: NDArray[np.int64] = logits.argmax(-1).astype(np.int64)
        return likeliest
    scores = logits.astype(np.float64) / sampling.temperature
    order = np.argsort(-scores, -1, kind="stable")
    ranked = np.take_along_axis(scores, order, -1)
    chances = np.exp(ranked - ranked[:, :1])
    chances /= chances.sum(-1, keepdims=True)
    kept = np.cumsum(chances, -1) - chances < sampling.top_p
    if sampling.top_k:
        kept &= np.arange(chances.shape[-1]) < sampling.top_k
    chances = np.where(kept, chances, 0.0)
    chances /= chances.sum(-1, keepdims=True)
    drawn = [random.choice(chances.shape[-1], p=row) for row in chances]
    tokens: NDArray[np.int64] = order[np.arange(len(drawn)), drawn].astype(np.int64)
    return tokens
