"""Samples as ``optim run --data`` takes them, and how far outputs are apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np


def samples_of(path: str) -> list[dict[str, Any]]:
    """Samples of a file whose arrays are called ``0/input``, each by its inputs."""
    with np.load(path) as arrays:
        return by_sample({name: arrays[name] for name in arrays.files})


def by_sample(arrays: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Arrays called ``0/name`` as those of each sample by name."""
    found: dict[str, dict[str, Any]] = {}
    for key, array in arrays.items():
        number, _, name = key.partition("/")
        found.setdefault(number, {})[name] = array
    return list(found.values())


def drift(samples: Iterable[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> float:
    """The worst drift over samples and outputs, as the gate defines it; infinite where an output is missing."""
    return max(drifts(samples))


def drifts(samples: Iterable[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> list[float]:
    """The drift of each sample, of its worst output."""
    from optim.drift import compare_outputs

    return [max(each) for each in zip(*(one.by_sample for one in compare_outputs(samples)), strict=True)]
