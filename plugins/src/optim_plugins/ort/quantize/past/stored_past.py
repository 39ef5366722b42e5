"""A past in integers, for comparing with the original, whose past is in floats.

stored = round(past / scale)        within -128..127 or -8..7; two of 4 bits share a byte, the first in its low half
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optim.arrays import Feeds, Outputs

Scales = Mapping[str, Sequence[Sequence[float]]]
"""By the name of an input or an output: of each key head the scale of each channel."""

_HALF = 8
"""What is added to 4 bits, so that they are no negative numbers."""


def integers_of(feeds: Feeds, inputs: Scales, outputs: Scales, bits: int) -> Feeds:
    """The original's feeds with the past of ``inputs`` in integers."""
    return {name: _stored(array, inputs[name], bits) if name in inputs else array for name, array in feeds.items()}


def floats_of(made: Outputs, inputs: Scales, outputs: Scales, bits: int) -> Outputs:
    """What the model made with the presents of ``outputs`` in floats, as the original gives them."""
    return {name: _restored(array, outputs[name], bits) if name in outputs else array for name, array in made.items()}


def _stored(past: NDArray[Any], scales: Sequence[Sequence[float]], bits: int) -> NDArray[Any]:
    largest = (1 << (bits - 1)) - 1
    scale = np.asarray(scales, np.float32)[None, :, None]
    integers = np.clip(np.rint(np.nan_to_num(past) / scale), -largest - 1, largest)
    if bits == 8:
        return np.asarray(integers, np.int8)
    shifted = (integers + _HALF).astype(np.uint8)
    packed: NDArray[Any] = shifted[..., ::2] | shifted[..., 1::2] << 4
    return packed


def _restored(present: NDArray[Any], scales: Sequence[Sequence[float]], bits: int) -> NDArray[Any]:
    scale = np.asarray(scales, np.float32)[None, :, None]
    if bits == 8:
        return np.asarray(present * scale, np.float32)
    pairs = np.stack([present & 15, present >> 4], axis=-1)
    integers = pairs.reshape(*present.shape[:-1], -1).astype(np.float32) - _HALF
    return np.asarray(integers * scale, np.float32)
