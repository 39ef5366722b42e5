"""Which positions of an output are padding, read from the attention mask among the feeds.

A model may compute anything at a padded position, and different kernels do. Such positions are left out where the
output carries the mask's sequence dimension: by its symbolic name where the graph names it, else by its size where
only one dimension of the output has that size.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optim.arrays import Array, Feeds
from optim.model import TensorInfo


def valid_positions(
    output: str, array: Array, feeds: Feeds, inputs: tuple[TensorInfo, ...], info: TensorInfo | None
) -> NDArray[np.bool_] | None:
    """True where ``array`` holds a real position, broadcastable to it; None where nothing is padded.

    Args:
        output: name of the output; a mask named for one side (``decoder_attention_mask``) is used for its own side.
        array: the reference's output, shape (batch, ..., sequence, ...).
        feeds: of the reference; masks are integer, boolean or float arrays of 0 and 1, shape (batch, sequence).
        inputs: of the reference model.
        info: of the output.
    """
    for mask_info in inputs:
        mask = feeds.get(mask_info.name)
        if mask is None or "mask" not in mask_info.name.lower() or np.ndim(mask) != 2:
            continue
        if not np.isin(mask, (0, 1)).all() or np.all(mask != 0) or array.ndim < 2 or array.shape[0] != mask.shape[0]:
            continue
        axis = _sequence_axis(array, mask, mask_info, info)
        if axis is not None:
            shape = [1] * array.ndim
            shape[0], shape[axis] = mask.shape
            valid: NDArray[np.bool_] = (np.asarray(mask) != 0).reshape(shape)
            return valid
    return None


def _sequence_axis(array: Array, mask: Array, mask_info: TensorInfo, info: TensorInfo | None) -> int | None:
    name = mask_info.shape[1] if mask_info.shape and len(mask_info.shape) == 2 else None
    fixed: set[int] = set()
    if isinstance(name, str) and info is not None and info.shape is not None and len(info.shape) == array.ndim:
        named = [axis for axis, size in enumerate(info.shape) if axis and size == name]
        if len(named) == 1 and array.shape[named[0]] == mask.shape[1]:
            return named[0]
        # the sequence is dynamic: an axis of fixed size, or of the mask's other name, only happens to be as long
        fixed = {axis for axis, size in enumerate(info.shape) if isinstance(size, int) or size in _names(mask_info)}
    same = [axis for axis in range(1, array.ndim) if axis not in fixed and array.shape[axis] == mask.shape[1]]
    return same[0] if len(same) == 1 else None


def _names(info: TensorInfo) -> set[str]:
    return {size for size in info.shape or () if isinstance(size, str)}
