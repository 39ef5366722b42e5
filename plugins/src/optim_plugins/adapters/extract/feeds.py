"""How the gate feeds a graph whose adapters were taken out."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np

from optim.arrays import Feeds
from optim_plugins.adapted import ONNX_ADAPTER, Adapter, read_adapter


def with_adapter(feeds: Feeds, file: str) -> Feeds:
    """The feeds of the original, and the weights of an adapter."""
    return {**feeds, **_adapter(file).arrays}


def without_adapter(feeds: Feeds, file: str = "") -> Feeds:
    """The feeds of the original; where every run must bring an adapter, one of zeros in the sizes of ``file``."""
    if not file:
        return feeds
    return {**feeds, **{name: np.zeros_like(array) for name, array in _adapter(file).arrays.items()}}


@lru_cache(maxsize=4)
def _adapter(file: str) -> Adapter:
    return read_adapter(Path(file), ONNX_ADAPTER)
