"""Conventions of a decoder's graph: names of its past, one buffer for past and present, logits of the last tokens.

Names tell which output is fed to which input of the next step::

    past_key_values.0.key              present.0.key                        optimum, onnxruntime-genai
    past_0                             present_0                            tools of onnxruntime
    past_key_self_0                    present_key_self_0
    input.past_key_values.layers.0.k   output.past_key_values.layers.0.k    exporters of transformers
    in_cache_k_0                       out_cache_k_0

Words that say past or present are left out; names whose other words are the same belong together. Two inputs or two
outputs of the same words tell nothing, nor does ``output`` alone, which may be scores.

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

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx_ir

    from optim.arrays import Array, Feeds, Outputs


PAST = "optim.past"
"""Of the metadata."""
_BUFFER = "buffer"
"""Past and present may be one buffer."""


def name_shared_past(graph: onnx_ir.Model) -> None:
    """Writes into the metadata of a graph that its past and present may be one buffer."""
    graph.metadata_props[PAST] = _BUFFER


def shares_past(metadata: Mapping[str, str]) -> bool:
    """Whether metadata say that past and present may be one buffer."""
    return metadata.get(PAST) == _BUFFER


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
    import numpy as np

    return np.array(1, np.int64)


def asking_for_one(feeds: Feeds) -> Feeds:
    """Feeds of a run that is asked for the last token's logits."""
    return {**feeds, KEPT_LOGITS: one_kept()}


def last_logits(outputs: Outputs, feeds: Feeds) -> Outputs:
    """The last token's logits of a run; zeros in rows that end in padding, whose last token is none."""
    import numpy as np

    last = outputs[LOGITS][:, -1:]
    mask = feeds.get("attention_mask")
    if mask is None or mask.ndim != 2 or len(mask) != len(last):
        return {LOGITS: last}
    return {LOGITS: np.where(mask[:, -1:, None] != 0, last, np.zeros_like(last))}


def carried_by_name(inputs: Iterable[str], outputs: Iterable[str]) -> dict[str, str]:
    """By output, the input that takes it in the next step."""
    of_the_past = {"past", "cache", "caches", "prev", "previous"}
    of_the_present = {*of_the_past, "present", "new", "next", "updated"}
    marks = {*of_the_present, "in", "out", "input", "output"}

    def words(name: str) -> list[str]:
        """A name, its layer and its part; ``past_key_values`` is one word."""
        return re.split(r"[^a-z0-9]+", re.sub(r"(past|present|new)_key_values?(?![a-z])", r"\1", name.lower()))

    def found(names: Iterable[str], needed: set[str]) -> dict[tuple[str, ...], list[str]]:
        """Names by their other words; of those that have no other words, the ones with a needed word."""
        by_words: dict[tuple[str, ...], list[str]] = {}
        for name in names:
            rest = tuple(word for word in words(name) if word not in marks)
            if rest or needed & set(words(name)):
                by_words.setdefault(rest, []).append(name)
        return by_words

    takers = found([name for name in inputs if of_the_past & set(words(name))], of_the_past)
    givers = found(outputs, of_the_present)
    pairs = [(givers.get(rest, []), taken) for rest, taken in takers.items()]
    return {given[0]: taken[0] for given, taken in pairs if len(given) == 1 and len(taken) == 1}
