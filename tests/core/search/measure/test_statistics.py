"""The interval of paired timings: what it rests on, and that it tells equal from different."""

from __future__ import annotations

import numpy as np
import pytest

from optim._engine.search.measure.noise_watch import NoiseWatch
from optim._engine.search.measure.statistics import median_interval, paired_ratio


def noisy(center, seed, rounds=30, spread=0.02):
    return center * (1 + spread * np.random.default_rng(seed).standard_normal(rounds))


def test_the_ratio_is_the_median_over_rounds_so_that_one_disturbed_round_does_not_count():
    ratio = paired_ratio([1.0, 1.0, 1.0, 1.0, 50.0], [2.0, 2.0, 2.0, 2.0, 2.0])
    assert (ratio.value, ratio.rounds) == (0.5, 5)


def test_pairing_cancels_what_both_lanes_saw():
    drifting = np.linspace(1.0, 3.0, 30)
    ratio = paired_ratio(0.8 * drifting, drifting)
    assert ratio.value == ratio.low == ratio.high == pytest.approx(0.8)


def test_the_interval_holds_the_value_and_is_the_same_for_the_same_seed():
    ratio = paired_ratio(noisy(0.9, 0), noisy(1.0, 1), seed=3)
    assert ratio.low <= ratio.value <= ratio.high
    assert ratio == paired_ratio(noisy(0.9, 0), noisy(1.0, 1), seed=3)


def test_a_clear_difference_is_called_one_and_a_tie_is_not():
    faster = paired_ratio(noisy(0.9, 0), noisy(1.0, 1))
    assert faster.high < 1
    ties = [paired_ratio(noisy(1.0, seed), noisy(1.0, seed + 100)) for seed in range(40)]
    assert sum(tie.low <= 1 <= tie.high for tie in ties) >= 32


def test_more_rounds_narrow_the_interval():
    few, many = (median_interval(noisy(1.0, 5, rounds=rounds)) for rounds in (8, 200))
    assert many[1] - many[0] < few[1] - few[0]


def test_a_single_round_has_an_interval_of_no_width():
    ratio = paired_ratio([3.0], [2.0])
    assert (ratio.low, ratio.value, ratio.high, ratio.rounds) == (1.5, 1.5, 1.5, 1)


def test_too_short_a_look_at_the_machine_says_nothing():
    assert NoiseWatch().foreign_share() is None
