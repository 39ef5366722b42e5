"""Cosine of embeddings with the original's."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from optim import Metric, PassOptions
from optim.arrays import Array, Feeds, Outputs
from optim_plugins.metrics.pick import pick_output
from optim_plugins.metrics.share import share

_USUAL = ("sentence_embedding", "embeddings", "last_hidden_state")


class CosineOptions(PassOptions):
    """Which embeddings."""

    output: str = Field(
        default="",
        description="name of the embeddings, shape (..., width); a usual name, else the first output, if empty",
    )
    pool: Literal["none", "mean", "first"] = Field(
        default="none",
        description="what is compared of an output (batch, sequence, width): every position that is not padding, the "
        "mean of those, or the first",
    )


def cosine(options: CosineOptions) -> Metric:
    """Mean cosine of embeddings with the original's."""

    def call(outputs: Outputs, feeds: Feeds, labels: Feeds) -> Array:
        a, b = (_pooled(pick_output(each, options.output, _USUAL), feeds, options.pool) for each in (outputs, labels))
        a, b = a.reshape(-1, a.shape[-1]), b.reshape(-1, b.shape[-1])
        norms = np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1)
        products = (a * b).sum(-1)
        cosines = np.where(norms > 0, products / np.maximum(norms, 1e-300), (norms == 0) & (products == 0))
        return np.array([cosines.sum(), len(cosines)])

    return Metric("cosine", True, call, share, "original", summary="cosine of embeddings with the original's")


def _pooled(given: Array, feeds: Feeds, pool: str) -> NDArray[np.float64]:
    array = np.atleast_1d(np.asarray(given, np.float64))
    mask = feeds.get("attention_mask")
    if array.ndim != 3 or mask is None or np.shape(mask) != array.shape[:2]:
        mask = np.ones(array.shape[:2]) if array.ndim == 3 else None
    if mask is None:
        return array
    valid = np.asarray(mask) != 0
    if pool == "none":
        return np.asarray(array[valid], np.float64)
    if pool == "first":
        return array[:, 0]
    weights = valid[..., None].astype(np.float64)
    sums: NDArray[np.float64] = np.sum(array * weights, axis=1)
    return np.asarray(sums / np.maximum(np.sum(weights, axis=1), 1.0), np.float64)
