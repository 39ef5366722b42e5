"""Two conventions of a decoder's graph: one buffer for past and present, and the logits of the last tokens alone.

    metadata_props["optim.past"] = "buffer"

Of such a graph a caller may bind an input ``past_key_values.X`` and its output ``present.X`` to the same memory: a
buffer with room for all tokens, [batch, heads, capacity, size], of which the length of ``attention_mask`` says how much
is filled. A run adds its tokens there and copies nothing. A caller who does not gets a longer present, as always.

The kernel that does so takes several new tokens behind a past for one row only; a first step and single tokens go in
any batch.

    num_logits_to_keep = 0        int64, no axes: an input with a default, so a run may leave it out

0 gives the logits of every token, as without the input; N those of the last N. Generation reads the last token's
alone, so the head of the model, its last layer and an array [batch, tokens, vocabulary] are computed for one token in
place of a whole prompt. The name is Hugging Face's.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import onnx_ir

    from optim.arrays import Array, Feeds, Outputs


KEY = "optim.past"
"""Of the metadata."""
BUFFER = "buffer"
"""Past and present may be one buffer."""


def name_shared_past(graph: onnx_ir.Model) -> None:
    """Writes into the metadata of a graph that its past and present may be one buffer."""
    graph.metadata_props[KEY] = BUFFER


def keep_shared_past(graph: onnx_ir.Model, predecessor: Path) -> None:
    """Say of a graph that a library wrote what its predecessor said: a library may have dropped the metadata."""
    if file_shares_past(predecessor):
        name_shared_past(graph)
    else:
        graph.metadata_props.pop(KEY, None)


def shares_past(metadata: Mapping[str, str]) -> bool:
    """Whether metadata say that past and present may be one buffer."""
    return metadata.get(KEY) == BUFFER


def file_shares_past(path: Path) -> bool:
    """Whether the graph of a file says that past and present may be one buffer."""
    import onnx

    entries = onnx.load(path, load_external_data=False).metadata_props
    return shares_past({entry.key: entry.value for entry in entries})


def why_not_taken(feeds: Feeds) -> str:
    """Why a graph whose past and present may be one buffer does not take feeds; empty where it does."""
    ids, mask = feeds.get("input_ids"), feeds.get("attention_mask")
    if ids is None or mask is None or ids.ndim != 2 or mask.ndim != 2:
        return ""
    rows, new = ids.shape
    if rows > 1 and 1 < new < mask.shape[1]:
        return f"{new} new tokens behind a past in {rows} rows; its kernel takes several behind a past for one row"
    return ""


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
