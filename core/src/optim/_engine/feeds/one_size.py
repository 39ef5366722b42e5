"""Dimensions that a model takes at any size and a user's samples have at one: what they say holds at that size."""

from __future__ import annotations

from collections.abc import Iterable

from optim._engine.feeds.feedset import SYNTHESIZED, FeedSet
from optim.model import TensorInfo

_FEWEST = 2
"""One sample has every dimension at one size, which says nothing of its user."""


def at_one_size(feeds: FeedSet, samples: Iterable[int], inputs: Iterable[TensorInfo]) -> tuple[str, ...]:
    """Returns the dynamic dimensions beside the batch that all samples have at one size, as ``sequence=128``.

    Args:
        feeds: of a run; where they were made up, nothing is returned.
        samples: which of them to look at.
        inputs: of the model; the first dimension of each is its batch.
    """
    seen: dict[str, set[int]] = {}
    shapes = [{name: array.shape for name, array in feeds.sample(index).items()} for index in samples]
    if feeds.origin == SYNTHESIZED or len(shapes) < _FEWEST:
        return ()
    for info in inputs:
        for axis, size in enumerate(info.shape or ()):
            if axis and not isinstance(size, int):
                known = {shape[info.name][axis] for shape in shapes if len(shape.get(info.name, ())) > axis}
                seen.setdefault(size or f"{info.name}[{axis}]", set()).update(known)
    return tuple(f"{name}={next(iter(sizes))}" for name, sizes in seen.items() if len(sizes) == 1)
