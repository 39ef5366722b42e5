"""Inputs and outputs that a conversion changed, for comparing with the original."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from optim.arrays import Array, Feeds, Outputs

_LARGEST = float(np.finfo(np.float16).max)


def feeds_as_float16(feeds: Feeds, inputs: Sequence[str], outputs: Sequence[str]) -> Feeds:
    """The original's feeds with ``inputs`` as float16; finite numbers beyond its range become the largest."""
    return {name: _float16(array) if name in inputs else array for name, array in feeds.items()}


def outputs_as_float32(made: Outputs, inputs: Sequence[str], outputs: Sequence[str]) -> Outputs:
    """What the model made with ``outputs`` as float32, as the original gives them."""
    return {name: array.astype(np.float32) if name in outputs else array for name, array in made.items()}


def _float16(array: Array) -> Array:
    wide = array.astype(np.float32)
    return np.where(np.isfinite(wide), np.clip(wide, -_LARGEST, _LARGEST), wide).astype(np.float16)
