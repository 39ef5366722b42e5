"""The interval of paired timings: what it rests on, and that it tells equal from different."""

from __future__ import annotations

import numpy as np
import pytest

from optim._engine.search.measure.lane_figures import joined_ratio, median_interval, paired_ratio
from optim._engine.search.measure.race_job import NoiseWatch


def noisy(center, seed, rounds=30, spread=0.02):
    return center * (1 + spread * np.random.default_rng(seed).standard_normal(rounds))


def test_the_ratio_is_the_median_over_rounds_so_that_one_disturbed_round_does_not_count():
    ratio = paired_ratio([1.0, 1.0, 1.0, 1.0, 50.0], [2.0, 2.0, 2.0, 2.0, 2.0])
    assert (ratio.value, ratio.rounds) == (0.5, 5)


def test_pairing_cancels_what_both_lanes_saw():
    drifting = np.linspace(1.0, 3.0, 30)
    ratio = paired_ratio(0.8 * drifting, drifting)
    assert ratio.value == ratio.low == ratio.high == pytest.approx(0.8)


def test_the_interval_holds_the_value():
    ratio = paired_ratio(noisy(0.9, 0), noisy(1.0, 1))
    assert ratio.low <= ratio.value <= ratio.high


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


def test_below_six_rounds_a_ratio_has_no_interval_and_is_never_called_faster():
    few, enough = (paired_ratio([0.5] * rounds, [1.0] * rounds) for rounds in (5, 6))
    assert (few.interval, few.is_faster, few.is_undecided) == (None, False, True)
    assert (enough.interval, enough.is_faster, enough.is_undecided) == ((0.5, 0.5), True, False)


def test_two_races_of_three_rounds_have_the_interval_of_six():
    short = paired_ratio([0.5, 0.6, 0.7], [1.0, 1.0, 1.0])
    assert joined_ratio(short, short).interval == (0.5, 0.7)


@pytest.mark.parametrize("rounds", [6, 7, 8, 9, 12, 40])
def test_intervals_that_are_shown_cover_the_median_as_often_as_they_say(rounds):
    draws = np.random.default_rng(5).lognormal(0.0, 0.1, (2000, rounds))
    found = [median_interval(draw) for draw in draws]
    assert np.mean([low <= 1.0 <= high for low, high in found]) > 0.935  # 0.95 less three standard errors


def test_too_short_a_look_at_the_machine_says_nothing():
    assert NoiseWatch().foreign_share() is None
