"""Decoders that compute the logits of the last tokens alone, where a run asks for it.

    num_logits_to_keep = 0        int64, no axes: an input with a default, so a run may leave it out

0 gives the logits of every token, as without the input; N those of the last N. Who generates reads the last token's
alone, so the head of the model, its last layer and an array [batch, tokens, vocabulary] are computed for one token in
place of a whole prompt. The name is Hugging Face's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from optim.arrays import Array, Feeds, Outputs

KEPT_LOGITS = "num_logits_to_keep"
"""Input that limits the logits to the last tokens."""
LOGITS = "logits"
"""Output of the logits."""


def one_kept() -> Array:
    """What asks for the last token's logits."""
    return np.array(1, np.int64)


def asking_for_one(feeds: Feeds) -> Feeds:
    """Feeds of a run that is asked for the last token's logits."""
    return {**feeds, KEPT_LOGITS: one_kept()}


def last_logits(outputs: Outputs, feeds: Feeds) -> Outputs:
    """The last token's logits of a run; zeros in rows that end in padding, whose last token is none."""
    last = outputs[LOGITS][:, -1:]
    mask = feeds.get("attention_mask")
    if mask is None or mask.ndim != 2 or len(mask) != len(last):
        return {LOGITS: last}
    return {LOGITS: np.where(mask[:, -1:, None] != 0, last, np.zeros_like(last))}
