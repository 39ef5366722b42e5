"""Inputs of models of transformers, made up: plausible values, sizes of every kind, rows that are padded."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import numpy as np

from optim.arrays import Array

_TEXT_SIZES = (128, 64)
"""No sequence is longer than this in a trial, nor than the model's own positions."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Which token ids there are.

    Attributes:
        size: ids run below it.
        padding: what fills padded places.
        end: what ends a text; None where nothing does.
        reserved: never drawn: padding, and ids that end or begin a text.
    """

    size: int
    padding: int
    end: int | None
    reserved: frozenset[int]

    @classmethod
    def of(cls, config: Any) -> Vocabulary:
        """From the configuration of a model."""
        text = config.get_text_config()
        size = int(text.vocab_size)
        ends = [end for end in _ids(text, "eos") if 0 <= end < size]
        padding = next((padding for padding in _ids(text, "pad") if padding >= 0), 0)
        reserved = {padding, *_ids(text, "pad"), *_ids(text, "eos"), *_ids(text, "bos")}
        return cls(size, padding, ends[0] if ends else None, frozenset(reserved))

    def draw(self, shape: tuple[int, ...], random: np.random.Generator) -> Array:
        """Ids that are no padding and end no text."""
        allowed = np.setdiff1d(np.arange(min(self.size, 50_000)), np.array(sorted(self.reserved)))
        return random.choice(allowed if allowed.size else np.arange(self.size), shape).astype(np.int64)


def _ids(config: Any, name: str) -> list[int]:
    """Token ids of one kind that a configuration names: none, one or several."""
    value = getattr(config, f"{name}_token_id", None)
    return [int(one) for one in (value if isinstance(value, list | tuple) else [value]) if one is not None]


def padding_mask(lengths: list[int], width: int, *, left: bool) -> Array:
    """A mask with one row for each length, ones where there is text."""
    positions = np.arange(width)[None]
    ends = np.asarray(lengths)[:, None]
    return (positions >= width - ends if left else positions < ends).astype(np.int64)


def positions_of(mask: Array, new: int) -> Array:
    """Position ids of the last ``new`` places: text is counted, padding is not."""
    counted: Array = np.maximum(np.cumsum(mask, -1) - 1, 0)[:, -new:].astype(np.int64)
    return counted


def longest(config: Any) -> int:
    """How long a text may be in a trial."""
    text = config.get_text_config()
    limits = [getattr(text, name, None) for name in ("max_position_embeddings", "n_positions", "max_source_positions")]
    known = [limit for limit in limits if isinstance(limit, int) and limit > 4]
    return min([*known, _TEXT_SIZES[0]]) - 4


def takes(model: Any, name: str) -> bool:
    """Whether a model's forward has an argument of that name."""
    return name in inspect.signature(model.forward).parameters
