"""What an input is for, judged by its name, type, shape, and what the graph does with it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum

from optim._engine.feeds.fitting import fed_dtype
from optim.arrays import is_float
from optim.errors import OptimError
from optim.model import TensorInfo


class InputRole(StrEnum):
    """What an input is for, in the order in which their dimensions are believed."""

    TOKENS = "token ids"
    HIDDEN = "embeddings or another model's hidden states"
    IMAGE = "an image"
    FEATURES = "audio features"
    WAVEFORM = "a waveform"
    PAST = "past keys or values"
    STATE = "a recurrent state"
    POSITIONS = "position ids"
    TYPES = "token type ids"
    MASK = "a mask"
    HEAD_MASK = "a mask of heads"
    CACHE_BRANCH = "whether the past is used"
    FLAG = "a flag"
    LENGTH = "lengths"
    RATE = "a sample rate"
    TIMESTEP = "a timestep"
    INTEGER = "a number"
    FLOAT = "numbers"


_ANY, _ARRAY, _MATRIX = range(99), range(1, 99), range(2, 99)
_RULES = (
    ("b", _ANY, r"use_cache|cache_branch", InputRole.CACHE_BRANCH),
    ("b", _MATRIX, "", InputRole.MASK),
    ("b", _ANY, "", InputRole.FLAG),
    ("iuf", range(3, 99), r"past|cache|mems|\bkv", InputRole.PAST),
    ("iuf", _ARRAY, r"mask.*head|head.*mask", InputRole.HEAD_MASK),
    ("iuf", _ARRAY, r"mask", InputRole.MASK),
    ("i", _ANY, r"token_type|segment|type_ids", InputRole.TYPES),
    ("i", _ANY, r"position|pos_ids", InputRole.POSITIONS),
    ("i", _ANY, r"^sr$|sampl\w*_rate", InputRole.RATE),
    ("i", _ANY, r"timestep", InputRole.TIMESTEP),
    ("i", _ARRAY, r"ids?$|ids[._]|tokens?|^text", InputRole.TOKENS),
    ("i", _ANY, r"len(gth)?s?(_k|_q)?$|seqlen|num_frames", InputRole.LENGTH),
    ("i", range(4, 99), "", InputRole.IMAGE),
    ("i", _ANY, "", InputRole.INTEGER),
    ("uf", range(2), r"timestep", InputRole.TIMESTEP),
    ("uf", _ANY, r"embed|hidden_states|encoder_out|memory", InputRole.HIDDEN),
    ("uf", range(3), r"wave|audio|speech|signal|input_values|pcm", InputRole.WAVEFORM),
    ("uf", range(3, 4), r"mel|feature|fbank|spectr|audio|speech", InputRole.FEATURES),
    ("uf", _ANY, r"state|^[hc]_?(0|n|in|prev)?$|hidden", InputRole.STATE),
    ("uf", range(4, 99), "", InputRole.IMAGE),
    ("u", range(3, 4), "", InputRole.IMAGE),
    ("f", range(3, 4), r"pixel|image|img", InputRole.IMAGE),
    ("uf", _ANY, "", InputRole.FLOAT),
)
"""Kinds of types (booleans, integers, bytes, and floats with all others), ranks and names; the first row that fits."""


def role_of(info: TensorInfo, rows: Mapping[str, int]) -> InputRole:
    """The role of one input, one with ``rows`` indexes a table; refuses a type that no values can be made up for."""
    kind, name = _kind(info), info.name.lower()
    rank = len(info.shape) if info.shape is not None else _rank_by_name(name, info)
    return next(
        role
        for kinds, ranks, pattern, role in _RULES
        if kind in kinds and rank in ranks
        if re.search(pattern, name) or (role is InputRole.TOKENS and info.name in rows)
    )


def _kind(info: TensorInfo) -> str:
    """The letter of a kind in the rules."""
    if info.dtype == "str":
        raise _cannot_make_up(info, "it is text, which optim cannot synthesize")
    dtype = fed_dtype(info)
    if dtype.kind == "b" or dtype == "uint8":
        return "b" if dtype.kind == "b" else "u"
    return "i" if dtype.kind in "iu" or (dtype.isbuiltin == 2 and not is_float(dtype)) else "f"


def _rank_by_name(name: str, info: TensorInfo) -> int:
    """The rank of an input that declares no shape at all, where its name tells."""
    if re.search(r"ids|tokens|mask|position|type", name):
        return 2
    if re.search(r"pixel|image|img", name):
        return 4
    raise _cannot_make_up(info, "it declares no shape")


def _cannot_make_up(info: TensorInfo, why: str) -> OptimError:
    """The error for an input that no values can be made up for."""
    return OptimError(
        "feeds-not-found",
        f"optim cannot synthesize input '{info.name}'",
        why,
        "give samples: --data samples.npz, written by numpy.savez('samples.npz', **inputs)",
    )
