"""The yardstick of drift, each figure against a value worked out by hand."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from optim._engine.gate.outputs import WHOLE, compare_output
from optim._engine.gate.variation import Variation, measure, read, write


def measured(*samples, dtype=np.float64, valid=None):
    return measure([(np.asarray(one, dtype), valid) for one in samples])


def channels(*sizes):
    """One sample of shape (1, channels, 3): each channel holds -size, 0 and size, whose deviation is the size."""
    return np.array([[[-size, 0, size] for size in sizes]], np.float64)


# The scale.


def test_with_several_samples_a_constant_for_each_element_counts_for_nothing():
    """Deviations of two samples from their mean are 1; of two samples, the variance is twice their mean square."""
    found = measured([101, 199], [99, 201])
    assert found.scale == pytest.approx(math.sqrt(2))
    np.testing.assert_allclose(found.slices[0], [[math.sqrt(2)] * 2, [100, 200]])


def test_with_one_sample_a_constant_for_each_slice_counts_for_nothing():
    found = measured(channels(1, 1) + np.array([[[100], [200]]]))
    np.testing.assert_allclose(found.slices[1], [[1, 1], [100, 200]])


def test_samples_of_other_shapes_are_measured_by_slice():
    one, other = channels(3, 3), np.concatenate([channels(3, 3)] * 2, axis=2)
    scales, middles = measured(one, other).slices[1]
    np.testing.assert_allclose(scales, math.sqrt(6 * 9 / 8))  # six deviations of 3 among nine, less one for the middle
    np.testing.assert_allclose(middles, 0)


def test_a_constant_answer_that_is_right_on_average_drifts_by_one():
    """This is what the unit means, and an offset of the output does not change it."""
    samples = np.random.default_rng(0).standard_normal((200, 1, 8)) + 1000
    variation = measured(*samples)
    drifts = [compare_output("y", one, samples.mean(axis=0), None, variation).relative_error for one in samples]
    assert np.median(drifts) == pytest.approx(1.0, abs=0.15)


def test_the_batch_has_no_slices_of_its_own():
    assert set(measured(np.random.default_rng(0).standard_normal((4, 5, 6))).slices) == {1, 2}


def test_padding_does_not_count():
    array = np.array([[1.0, 3.0, 5000.0]])
    found = measured(array, valid=np.array([[True, True, False]]))
    assert found.scale == pytest.approx(1.0)  # 1 and 3 are 1 away from their middle


# Kinds.


def test_a_quiet_slice_has_the_geometric_mean_of_its_own_scale_and_its_neighbours():
    np.testing.assert_allclose(measured(channels(1, 4, 9)).slices[1][0], [2, 4, 9])


def test_slices_a_hundred_apart_are_of_different_kinds():
    found = measured(channels(1, 4, 9, 1000, 4000, 9000)).slices[1][0]
    np.testing.assert_allclose(found, [2, 4, 9, 2000, 4000, 9000])
    np.testing.assert_allclose(measured(channels(1, 4, 9, 600)).slices[1][0], [2, 4, 9, 600])


def test_the_quiet_kind_beside_a_loud_one_is_measured_by_itself():
    """Scores in 0..1 beside boxes in pixels: scores that are unrelated are as wrong as a constant, or worse."""
    rng = np.random.default_rng(0)
    reference = np.concatenate([rng.uniform(0, 600, (50, 4)), rng.uniform(0, 1, (50, 1))], axis=1)
    other = reference.copy()
    other[:, 4] = rng.uniform(0, 1, 50)
    found = compare_output("y", reference, other)
    assert found.relative_error > 0.5
    assert found.where == "column 4"


def test_a_slice_that_never_varies_is_measured_by_its_size_or_that_of_most():
    scales = measured(channels(2, 2, 0) + np.array([[[0], [0], [40]]])).slices[1][0]
    np.testing.assert_allclose(scales, [2, 2, 40])
    np.testing.assert_allclose(measured(channels(2, 2, 0)).slices[1][0], [2, 2, 2])


def test_a_loud_element_does_not_count_in_the_scale_and_is_measured_by_its_own_size():
    """Of nine, four are 2 from the median and four are on it; the ninth is a hundred times as far and left out."""
    reference = np.array([-1.0, 1, -1, 1, -1, 1, -1, 1, 1000])
    assert measured(reference).scale == pytest.approx(math.sqrt(4 * 4 / 8))
    other = reference.copy()
    other[8] = 1010
    assert compare_output("y", reference * 1.1, other * 1.1).relative_error == pytest.approx(10 / 999 / 3, rel=1e-3)
    other[8], other[0] = 1000, 9
    assert compare_output("y", reference * 1.1, other * 1.1).relative_error == pytest.approx(10 / math.sqrt(2) / 3)


# Sentinels.


@pytest.mark.parametrize(
    ("array", "sentinels"),
    [
        ([-1, 1, -1, 1, -1e9, -1e9], (-1e9,)),
        ([-1, 1, -1, 1, 31, 31], (31,)),
        ([-1, 1, -1, 1, 29, 29], ()),  # less than thirty deviations away
        ([-1, 1, -1, 1, -1e9], ()),  # no value repeats
        ([1000, 1001, 1000, 1001, 2000, 2000], ()),  # far in deviations, but not in size
        ([-1, 1, -1, 1, -1e9, -1e9, 1e30, 1e30], (1e30, -1e9)),
        ([0, 0, 0, 1, 1], ()),  # a mask
    ],
)
def test_a_sentinel_repeats_and_lies_far_from_everything_else(array, sentinels):
    assert measured(array).sentinels == sentinels


def test_beside_sentinels_the_rest_has_its_own_scale_and_the_sentinels_must_stay():
    rng = np.random.default_rng(0)
    reference = rng.standard_normal(64)
    reference[:4] = -1e9
    unrelated = rng.standard_normal(64)
    unrelated[:4] = -1e9
    assert compare_output("y", reference, unrelated).relative_error > 0.5
    unmasked = reference.copy()
    unmasked[0] = 0.0
    assert compare_output("y", reference, unmasked).relative_error > 1 / math.sqrt(61) * 0.99  # of 61 that count
    assert compare_output("y", reference, reference).relative_error == 0.0


# Shares.


def test_rare_probabilities_beside_common_ones_are_measured_between_both_scales():
    """Of four deviations two are 0.1 and two 0.001, with half their freedom."""
    found = measured([0.2, 0.5], [0.4, 0.502])
    assert found.is_share
    assert found.scale == pytest.approx(0.1, rel=1e-3)
    np.testing.assert_allclose(found.slices[0][0], [math.sqrt(0.02), math.sqrt(0.1 * 0.001 * math.sqrt(2))], rtol=1e-3)


def test_a_probability_that_hardly_varies_has_at_least_the_scale_of_rounding():
    found = measured([0.2, 0.5], [0.4, 0.5])
    assert found.slices[0][0][1] == pytest.approx(math.sqrt(0.1 * found.rounds_by), rel=0.1)


@pytest.mark.parametrize("samples", [([0.2, 1.5], [0.4, 0.5]), ([-0.1, 0.5], [0.4, 0.6])])
def test_others_do_not(samples):
    assert not measured(*samples).is_share


# What cannot be judged.


@pytest.mark.parametrize(
    ("samples", "dtype", "reason"),
    [
        ([np.zeros((0, 3))], "float32", "it has no element on any sample"),
        ([[math.nan, math.inf]], "float32", "it has no finite number on any sample"),
        ([[0, 0], [0, 0]], "float32", "it is zero on all samples"),
        ([[1e-40, -2e-40]], "float32", "it is too near to zero for the precision of its type on all samples"),
        ([[3, 3, 3]], "float32", "it is one number on all samples"),
        ([[3, 3], [3, 3]], "float32", "it is one number on all samples"),
        ([[1, 2], [1, 2], [1, 2]], "float32", "it is the same on all 3 samples"),
        ([[7, 7], [7, 7]], "int64", "it is one number on all samples"),
        ([["a", "a"]], "object", "it is one text on all samples"),
        ([[1e-12, -2e-12]], "float32", ""),
        ([[1, 2], [2, 1]], "int64", ""),
    ],
)
def test_an_output_that_cannot_show_an_error_says_why(samples, dtype, reason):
    assert measured(*samples, dtype=dtype).unjudged == reason


@pytest.mark.parametrize("size", [1e-300, 1e-12, 1.0, 1e200, 1e308])
def test_the_scale_follows_the_unit_of_the_output(size):
    assert measured(np.array([-1.0, 1, -1, 1]) * size).scale == pytest.approx(size)


@pytest.mark.parametrize("value", [-1.0, 0.0, 3.5])
def test_a_scalar_is_measured_and_compared(value):
    reference = np.float32(value)
    variation = measure([(reference, None), (np.float32(value + 2), None)])
    assert variation.scale == pytest.approx(math.sqrt(2))
    found = compare_output("y", reference, np.float32(value + math.sqrt(2)), None, variation)
    assert found.relative_error == pytest.approx(1.0, rel=1e-3)


def test_what_is_too_far_for_a_number_is_infinitely_far():
    """The difference of these overflows, and their squares do."""
    reference = np.array([1.5e308, -1.5e308, 1.0, 2.0])
    assert compare_output("y", reference, -reference).relative_error == math.inf
    assert not compare_output("y", reference, -reference).is_rounding
    assert compare_output("y", reference, reference).relative_error == 0.0


# Rounding.


def test_of_what_several_settings_change_the_greatest_counts():
    found = Variation(1.0).with_rounding({1: np.array([1e-5, 3e-5])}).with_rounding({1: np.array([2e-5, 0])})
    np.testing.assert_allclose(found.rounding[1], [2e-5, 3e-5])


def test_a_slice_that_is_little_but_rounding_gets_a_larger_scale():
    table, rounding = (
        np.array([[1.0, 2.0, 2.0], [5.0, 6.0, 6.0]]),
        {1: np.array([0.01, 0.0005, 0.0005]), WHOLE: np.array([0.5])},
    )
    found = Variation(1.0, slices={1: table}, rounding=rounding).beside_rounding(0.001, 0.01)
    np.testing.assert_allclose(found.slices[1], [[10, 2, 2], [5, 6, 6]])
    np.testing.assert_allclose(found.rounding[1], [0.001, 0.0005, 0.0005])
    np.testing.assert_allclose(found.rounding[WHOLE], [0.5])


def test_rounding_that_moves_all_slices_alike_changes_no_scale():
    table = np.array([[1.0, 2.0], [5.0, 6.0]])
    found = Variation(1.0, slices={1: table}, rounding={1: np.array([0.002, 0.002])}).beside_rounding(0.001, 0.01)
    np.testing.assert_allclose(found.slices[1], table)


def test_slices_that_rounding_was_not_measured_of_stay_as_they_are():
    table = np.array([[1.0, 2.0], [5.0, 6.0]])
    np.testing.assert_allclose(Variation(1.0, slices={1: table}).beside_rounding(0.001, 0.01).slices[1], table)


def test_what_was_written_is_read(tmp_path):
    written = {
        "y": Variation(
            0.25,
            -3.0,
            {1: np.array([[1.0, 2.0], [3.0, 4.0]]), 2: np.ones((2, 3))},
            is_share=True,
            sentinels=(-1e9, 1e30),
            unjudged="it is the same on all 3 samples",
            rounding={WHOLE: np.array([1e-6]), 1: np.array([1e-7, 2e-7])},
            has_padding=True,
        ),
        "parts[0]/x": Variation(0.0),
    }
    write(tmp_path, written)
    found = read(tmp_path)
    assert list(found) == list(written)
    for name, one in written.items():
        for field in dataclasses.fields(Variation):
            np.testing.assert_equal(getattr(found[name], field.name), getattr(one, field.name))
