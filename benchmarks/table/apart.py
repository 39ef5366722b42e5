"""That judging samples are not calibration samples: by content, not by name."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

FEWEST_JUDGED = 8

Sample = Mapping[str, Any]


class SamplesOverlapError(Exception):
    """A judging sample is one that tools calibrated on, or is there twice."""


def digest(sample: Sample) -> str:
    """Of the content of a sample: names, types, shapes and bytes of its inputs."""
    found = hashlib.sha256()
    for name in sorted(sample):
        array = np.ascontiguousarray(sample[name])
        found.update(f"{name}|{array.dtype.str}|{array.shape}|".encode())
        found.update(array.tobytes())
    return found.hexdigest()


def check_apart(calibration: Sequence[Sample], judging: Sequence[Sample]) -> dict[str, Any]:
    """How many samples there are, and a digest of either set.

    Raises:
        SamplesOverlapError: a sample is in both sets, or twice in one, or there are fewer than eight to judge by.
    """
    sets = {"calibration": [digest(one) for one in calibration], "judging": [digest(one) for one in judging]}
    for name, digests in sets.items():
        for i, one in enumerate(digests):
            if one in digests[:i]:
                raise SamplesOverlapError(f"{name} samples {digests.index(one)} and {i} are equal")
    for i, one in enumerate(sets["judging"]):
        if one in sets["calibration"]:
            raise SamplesOverlapError(f"judging sample {i} is calibration sample {sets['calibration'].index(one)}")
    if len(judging) < FEWEST_JUDGED:
        raise SamplesOverlapError(f"{len(judging)} judging samples; at least {FEWEST_JUDGED} are needed")
    return {
        name: {"samples": len(digests), "sha256": hashlib.sha256("".join(digests).encode()).hexdigest()[:16]}
        for name, digests in sets.items()
    }
