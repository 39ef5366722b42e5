"""Mel filters: constants that the step and its counterpart share (Slaney's scale, area normalised, as Whisper's)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_LINEAR_HZ, _LINEAR_STEP = 1000.0, 200.0 / 3
_LOG_STEP = np.log(6.4) / 27


def mel_filters(rate: int, size: int, count: int) -> NDArray[np.float32]:
    """Triangular filters on the bins of a Fourier transform.

    Args:
        rate: of the samples, in Hz.
        size: of the transform, in samples.
        count: of filters.

    Returns:
        Shape (size // 2 + 1, count).
    """
    bins = np.linspace(0, rate / 2, size // 2 + 1)
    edges = _to_hz(np.linspace(0.0, _to_mel(rate / 2), count + 2))
    width = np.diff(edges)
    slopes = edges[None, :] - bins[:, None]
    rising, falling = -slopes[:, :-2] / width[:-1], slopes[:, 2:] / width[1:]
    filters = np.maximum(0, np.minimum(rising, falling)) * (2.0 / (edges[2:] - edges[:-2]))
    return filters.astype(np.float32)


def _to_mel(hertz: float) -> float:
    linear = hertz / _LINEAR_STEP
    return float(linear if hertz < _LINEAR_HZ else _LINEAR_HZ / _LINEAR_STEP + np.log(hertz / _LINEAR_HZ) / _LOG_STEP)


def _to_hz(mels: NDArray[np.float64]) -> NDArray[np.float64]:
    knee = _LINEAR_HZ / _LINEAR_STEP
    return np.where(mels < knee, mels * _LINEAR_STEP, _LINEAR_HZ * np.exp(_LOG_STEP * (mels - knee)))
