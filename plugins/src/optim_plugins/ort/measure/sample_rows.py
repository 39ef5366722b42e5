"""How many rows the products of a model see at a time, guessed from a sample: what decides which kernels are fast."""

from __future__ import annotations

import math

from optim import Context, Model

FEW_ROWS = 16
"""With fewer a product waits for its weight to come from memory; with more for the processor to multiply."""

_MANY = 1024


def rows_at_a_time(model: Model, context: Context) -> int:
    """Tokens of the first sample; many where the model takes no tokens.

    A decoder's step is told by its ids, one for each row of the batch, not by a mask that spans the past as well.
    """
    feeds = next(iter(context.samples()), None)
    if feeds is None:
        return _MANY
    tokens = [
        math.prod(feeds[info.name].shape)
        for info in model.inputs
        if info.dtype in ("int32", "int64") and info.name in feeds and feeds[info.name].ndim >= 1
    ]
    return min(tokens, default=_MANY)
