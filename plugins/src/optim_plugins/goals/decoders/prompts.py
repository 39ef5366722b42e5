"""Prompts as users give them: rows of token ids, or inputs by name; what is none is refused with what is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optim.arrays import Feeds
from optim.errors import OptimError

_EXAMPLE = "decoder.generate([[5, 6, 7]])"
_TOKENIZED = "decoder.generate([tokenizers.Tokenizer.from_file('tokenizer.json').encode(text).ids])"


def token_rows(prompt: Any) -> list[NDArray[np.int64]]:
    """The ids of each row.

    Args:
        prompt: lists of ids, or an array of shape (batch, sequence).

    Raises:
        OptimError[bad-prompt]: it is text, holds no tokens, or is no list of lists of whole numbers.
    """
    texts = [prompt] if isinstance(prompt, str | bytes) else prompt if isinstance(prompt, list | tuple) else []
    if any(isinstance(text, str | bytes) for text in texts):
        raise bad_prompt("it is text, and the model takes ids of tokens", _TOKENIZED)
    try:
        rows = [np.asarray(row) for row in prompt]
    except (TypeError, ValueError):
        rows = []
    if not rows or any(row.ndim != 1 or not row.size for row in rows):
        raise bad_prompt("it holds no tokens, or is not a list of lists of them", _EXAMPLE)
    if any(row.dtype.kind not in "iu" for row in rows):
        raise bad_prompt("its ids are not integers", _EXAMPLE)
    return [row.astype(np.int64) for row in rows]


def padded(rows: Sequence[NDArray[np.int64]], padding: int, *, on_the_left: bool) -> Feeds:
    """Rows of several lengths as one array, with the mask that tells padding from text.

    Args:
        rows: ids of each.
        padding: id beside them.
        on_the_left: before the text, as decoders have it; else behind, as encoders have it.
    """
    longest = max(row.size for row in rows)
    ids, mask = np.full((len(rows), longest), padding), np.zeros((len(rows), longest), np.int64)
    for index, row in enumerate(rows):
        place = slice(longest - row.size, None) if on_the_left else slice(row.size)
        ids[index, place], mask[index, place] = row, 1
    return {"input_ids": ids, "attention_mask": mask}


def require_ids(feeds: Feeds) -> None:
    """Refuse ids without tokens, and a mask that is not theirs.

    Raises:
        OptimError[bad-prompt]: it is so.
    """
    if "input_ids" not in feeds:
        return
    ids = np.asarray(feeds["input_ids"])
    token_rows(ids)
    if ids.ndim != 2:
        raise bad_prompt(f"input_ids has the shape {list(ids.shape)}, and not [batch, tokens]", _EXAMPLE)
    mask = np.asarray(feeds.get("attention_mask", ids))
    if mask.shape != ids.shape:
        raise bad_prompt(
            f"attention_mask has the shape {list(mask.shape)}, and input_ids {list(ids.shape)}",
            "decoder.generate({'input_ids': ids, 'attention_mask': numpy.ones_like(ids)})",
        )


def bad_prompt(cause: str, fix: str) -> OptimError:
    """The error for a prompt that no generation begins with."""
    return OptimError("bad-prompt", "cannot generate from this prompt", cause, fix)
