"""What drift to expect of a further sample, from those that were measured.

A budget that is just held on eight samples is broken by every third of the next ones. Drifts of samples of one kind lie
close together, so their mean and spread tell where the next will be: the upper end of a one-sided prediction interval
of a normal distribution, ``mean + t * deviation * sqrt(1 + 1/n)`` (Hahn and Meeker, Statistical Intervals, 1991, 4.8).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist, fmean, stdev

LEAST_SAMPLES = 4
"""Fewer show no spread: then the worst that was seen counts."""

_PROBABILITY = 0.99


def foresee(drifts: Sequence[float]) -> float:
    """The drift that one further sample stays below, with 99 % probability; never less than the worst seen.

    Args:
        drifts: relative L2 of each sample.

    Returns:
        Relative L2; the worst where there are fewer than four samples, or one is infinite.
    """
    worst = max(drifts, default=0.0)
    if len(drifts) < LEAST_SAMPLES or not math.isfinite(worst):
        return worst
    return max(worst, fmean(drifts) + _student(len(drifts) - 1) * stdev(drifts) * math.sqrt(1 + 1 / len(drifts)))


def _student(freedom: int) -> float:
    """Student's t at the probability, within 2 % for three degrees of freedom and more.

    Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.5.
    """
    z: float = NormalDist().inv_cdf(_PROBABILITY)
    terms = ((z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96, (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384)
    return z + sum(term / float(freedom) ** power for power, term in enumerate(terms, 1))
