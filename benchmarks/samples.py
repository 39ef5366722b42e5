"""Samples as ``optim run --data`` takes them, and how far outputs are apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def samples_of(path: str) -> list[dict[str, Any]]:
    """Samples of a file whose arrays are called ``0/input``, each by its inputs."""
    found: dict[str, dict[str, Any]] = {}
    with np.load(path) as arrays:
        for name in arrays.files:
            number, _, given = name.partition("/")
            found.setdefault(number, {})[given] = arrays[name]
    return list(found.values())


def drift(reference: Sequence[Any], found: Sequence[Any]) -> float:
    """The worst relative L2 over the outputs."""
    return max(float(np.linalg.norm(b - a) / np.linalg.norm(a)) for a, b in zip(reference, found, strict=True))
