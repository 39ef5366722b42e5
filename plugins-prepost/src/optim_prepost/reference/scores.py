"""Counterparts of steps on scores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from optim_prepost.reference.arrays import Array, Arrays


def softmax(data: Array, name: str | None = None) -> Arrays:
    """Probabilities along the last axis, in float64."""
    wide = data.astype(np.float64)
    powers = np.exp(wide - wide.max(-1, keepdims=True))
    return ((powers / powers.sum(-1, keepdims=True)).astype(data.dtype),)


def sigmoid(data: Array, name: str | None = None) -> Arrays:
    """``1 / (1 + exp(-x))`` in float64."""
    return ((1 / (1 + np.exp(-data.astype(np.float64)))).astype(data.dtype),)


def arg_max(data: Array, name: str | None = None, axis: int = -1, keepdims: int = 0) -> Arrays:
    """The first place of the largest."""
    return (np.argmax(data, axis=axis, keepdims=bool(keepdims)),)


def top_k(data: Array, k: int, name: str | None = None) -> Arrays:
    """The largest first; of equal ones the earlier."""
    order = np.argsort(-data, axis=-1, kind="stable")[..., :k]
    return np.take_along_axis(data, order, -1), order


def labels(indices: Array, labels: Sequence[str], name: str | None = None) -> Arrays:
    """Names of classes."""
    return (np.asarray(labels, dtype=object)[indices],)
