"""The sizes that samples are made with, and what to try when a model refuses them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Setting:
    """One sample's sizes.

    Attributes:
        batch: samples fed at once.
        length: of a sequence of tokens or steps.
        past: tokens in the cache.
        padded: whether a mask hides part of the sequence (of the last row, in a batch).
        height: of images, pixels.
        width: of images, pixels.
        frames: of audio features.
        samples: of a waveform.
        other: every other dimension that is not fixed.
        known_ids: token ids run below this where no table tells.
        equal: if set, the size of every dimension but the batch.
        mask_without_past: the mask covers the new tokens only.
        mask: hides nothing (``full``), or a part at the ``end`` or ``start`` of each row; empty: as ``padded`` says.
    """

    batch: int = 1
    length: int = 128
    past: int = 0
    padded: bool = False
    height: int = 224
    width: int = 224
    frames: int = 3000
    samples: int = 16000
    other: int = 16
    known_ids: int = 100
    equal: int | None = None
    mask_without_past: bool = False
    mask: str = ""


@dataclass(frozen=True, slots=True)
class _Scale:
    divisor: int
    spatial: int
    frames: int
    samples: int


_SCALES = (
    _Scale(1, 224, 3000, 16000),
    _Scale(2, 256, 1000, 48000),
    _Scale(4, 64, 300, 4000),
    _Scale(8, 32, 100, 512),
    _Scale(16, 28, 64, 400),
    _Scale(64, 16, 16, 160),
)
_LONGER = (4, 16, 125)
"""A sequence of floats may be a sound, of which filters take windows: 512, 2048 and 16,000 samples in place of 128."""

_TEXT = (
    Setting(),
    Setting(length=32),
    Setting(padded=True),
    Setting(length=17),
    Setting(batch=2, length=32, padded=True),
    Setting(),
    Setting(length=17, padded=True),
    Setting(length=64),
)
_DECODE = (
    Setting(length=1, past=127),
    Setting(length=1, past=31),
    Setting(length=1, past=127, padded=True),
    Setting(length=32, past=0),
    Setting(length=1, past=31, batch=2, padded=True),
    Setting(length=1, past=16),
    Setting(length=1, past=127),
    Setting(length=1, past=63, padded=True),
)
"""Decode steps are what matters; one prefill, with no past, is among them."""


def attempts(*, past: bool, maskable: bool, prefill: bool, ids_unknown: bool) -> Iterator[list[Setting]]:
    """Lists of settings, the usual first, then what models with hidden constraints may accept.

    Args:
        past: the model is a decoder with a cache.
        maskable: it has a mask, so samples can be padded.
        prefill: try a sample without a past too.
        ids_unknown: some token ids index no table that the graph tells.
    """
    base = [setting for setting in (_DECODE if past else _TEXT) if prefill or not past or setting.past]
    base = [replace(setting, padded=setting.padded and maskable) for setting in base]
    scaled = [[_scaled(setting, scale, index) for index, setting in enumerate(base)] for scale in _SCALES]
    yield from scaled
    if past:
        yield [replace(setting, mask_without_past=True) for setting in base]
    for size in (16, 8, 4, 2, 1):
        yield [replace(setting, equal=size) for setting in base if not past or setting.past]
    for other in (512, 64):
        yield [replace(setting, other=other) for setting in base]
    for times in _LONGER:
        yield [replace(setting, length=setting.length * times) for setting in base]
    if ids_unknown:
        yield [replace(setting, known_ids=2) for setting in scaled[0]]
        yield [replace(setting, known_ids=2) for setting in scaled[3]]


def _scaled(setting: Setting, scale: _Scale, index: int) -> Setting:
    height = width = scale.spatial
    if index % 4 == 3:
        step = 32 if scale.spatial > 64 else 8
        height, width = max(step, height - step), width + step
    return replace(
        setting,
        length=max(1, setting.length // scale.divisor),
        past=max(1, setting.past // scale.divisor) if setting.past else 0,
        height=height,
        width=width,
        frames=scale.frames,
        samples=scale.samples,
        other=max(1, setting.other // scale.divisor),
    )
