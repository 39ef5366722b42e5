"""What an input is for, judged by its name, type, shape, and what the graph does with it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum

from optim._engine.feeds.fitting import fed_dtype
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


_INTEGERS = "iu"


def role_of(info: TensorInfo, rows: Mapping[str, int]) -> InputRole:
    """The role of one input; refuses one of a type that no values can be made up for."""
    kind = _kind(info)
    name = info.name.lower()
    rank = len(info.shape) if info.shape is not None else _rank_by_name(name, info)
    if kind == "b":
        if re.search(r"use_cache|cache_branch", name):
            return InputRole.CACHE_BRANCH
        return InputRole.MASK if rank >= 2 else InputRole.FLAG
    if rank >= 3 and re.search(r"past|cache|mems|\bkv", name):
        return InputRole.PAST
    if "mask" in name and rank >= 1:
        return InputRole.HEAD_MASK if "head" in name else InputRole.MASK
    if kind in _INTEGERS and info.dtype != "uint8":
        return _integer_role(info, name, rank, rows)
    return _number_role(name, rank, info)


def _integer_role(info: TensorInfo, name: str, rank: int, rows: Mapping[str, int]) -> InputRole:
    if re.search(r"token_type|segment|type_ids", name):
        return InputRole.TYPES
    if re.search(r"position|pos_ids", name):
        return InputRole.POSITIONS
    if re.search(r"^sr$|sampl\w*_rate", name):
        return InputRole.RATE
    if "timestep" in name:
        return InputRole.TIMESTEP
    if rank >= 1 and (info.name in rows or re.search(r"ids?$|ids[._]|tokens?|^text", name)):
        return InputRole.TOKENS
    if re.search(r"len(gth)?s?(_k|_q)?$|seqlen|num_frames", name):
        return InputRole.LENGTH
    return InputRole.IMAGE if rank >= 4 else InputRole.INTEGER


def _number_role(name: str, rank: int, info: TensorInfo) -> InputRole:
    if "timestep" in name and rank <= 1:
        return InputRole.TIMESTEP
    if re.search(r"embed|hidden_states|encoder_out|memory", name):
        return InputRole.HIDDEN
    if re.search(r"wave|audio|speech|signal|input_values|pcm", name) and rank <= 2:
        return InputRole.WAVEFORM
    if re.search(r"mel|feature|fbank|spectr|audio|speech", name) and rank == 3:
        return InputRole.FEATURES
    if re.search(r"state|^[hc]_?(0|n|in|prev)?$|hidden", name):
        return InputRole.STATE
    if rank >= 4 or (rank == 3 and (info.dtype == "uint8" or re.search(r"pixel|image|img", name))):
        return InputRole.IMAGE
    return InputRole.FLOAT


def _kind(info: TensorInfo) -> str:
    """Numpy's letter for the kind of type, ``f`` for the floats of ml_dtypes too."""
    if info.dtype == "str":
        raise _cannot_make_up(info, "it is text, which optim cannot synthesize")
    dtype = fed_dtype(info)
    if dtype.isbuiltin == 2:
        return "f" if "float" in dtype.name else "i"
    return dtype.kind


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
