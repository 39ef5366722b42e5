"""Counterparts of steps that only move numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
"""Any type: what a step makes of it is its own business."""

Arrays = tuple[Array, ...]


def identity(*arrays: Array, num_inputs: int = 1, name: str | None = None) -> Arrays:
    """The same arrays."""
    return arrays[:num_inputs]


def reverse_axis(data: Array, axis: int = -1, dim_value: int = -1, name: str | None = None) -> Arrays:
    """One axis backwards."""
    return (np.flip(data, axis),)


def split(
    data: Array, num_outputs: int, axis: int | None = None, splits: Any = None, name: str | None = None
) -> Arrays:
    """Parts along an axis; of equal size, the last one smaller, unless sizes are given."""
    axis = axis or 0
    if splits is None:
        size = -(-data.shape[axis] // num_outputs)
        places = [size * (i + 1) for i in range(num_outputs - 1)]
    else:
        places = np.cumsum(splits)[:-1].tolist()
    return tuple(np.split(data, places, axis))


def squeeze(data: Array, axes: Any = None, name: str | None = None) -> Arrays:
    """Without axes of size 1."""
    return (np.squeeze(data, None if axes is None else tuple(axes)),)


def unsqueeze(data: Array, axes: Any, name: str | None = None) -> Arrays:
    """With new axes of size 1."""
    return (np.expand_dims(data, tuple(axes)),)


def transpose(data: Array, perms: Any, name: str | None = None) -> Arrays:
    """Axes in another order."""
    return (np.transpose(data, tuple(perms)),)


def channels_last_to_channels_first(data: Array, has_batch_dim: bool = False, name: str | None = None) -> Arrays:
    """[h, w, c] as [c, h, w]."""
    return (np.moveaxis(data, -1, -3),)
