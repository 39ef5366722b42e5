"""The figures that the gate looks at, each against a value worked out by hand, and what must never pass."""

from __future__ import annotations

import math

import numpy as np
import pytest

from optim._engine.gate.drift import NO_DRIFT, merge_samples, worst_drift
from optim._engine.gate.outputs import compare_output, compare_sample, elements, require_compared
from optim.drift import relative_distance
from optim.errors import OptimError


def compared(reference, other, **kwargs):
    return compare_output("y", np.asarray(reference), np.asarray(other), **kwargs)


def sample(reference, other):
    return compare_sample(reference, other, {}, None)


def floats(*values):
    return np.array(values, np.float32)


def test_equal_arrays_have_no_drift():
    found = compared(floats(1, -2, 3), floats(1, -2, 3))
    assert found.drift == NO_DRIFT
    assert (found.compared, found.max_ulp, found.sqnr_db, found.problem) == (3, 0.0, math.inf, "")


def test_a_drift_of_one_is_as_far_as_the_best_constant_answer():
    reference = np.random.default_rng(0).standard_normal(10_000).astype(np.float32)
    for offset in (0, 100):
        constant = np.full_like(reference, reference.mean() + offset)
        assert compared(reference + np.float32(offset), constant).relative_error == pytest.approx(1.0, rel=0.01)


def test_max_abs_is_in_the_outputs_own_unit():
    assert compared(floats(300, 1), floats(300.5, 0)).max_abs == pytest.approx(1.0)


def test_cosine_is_of_the_flattened_output():
    assert compared([[1.0, 0.0]], [[0.0, 1.0]]).cosine == pytest.approx(0.0)
    assert compared([1.0, 2.0], [-1.0, -2.0]).cosine == pytest.approx(-1.0)
    assert compared([1.0, 2.0], [2.0, 4.0]).cosine == pytest.approx(1.0)


def test_sqnr_is_twenty_times_the_log_of_signal_over_noise():
    assert compared(floats(10, 0), floats(10, 1)).sqnr_db == pytest.approx(20.0)


def test_ulp_is_counted_in_the_references_own_dtype():
    one = np.float16(1)
    found = compared(np.array([one]), np.array([np.nextafter(np.nextafter(one, np.float16(2)), np.float16(2))]))
    assert found.max_ulp == pytest.approx(2.0)
    assert compared(np.array([1, 2]), np.array([1, 3])).max_ulp is None
    smallest = float(np.finfo(np.float32).tiny)
    assert compared(floats(0, smallest), floats(0, smallest * (1 + 2**-22))).max_ulp == pytest.approx(2.0)


def test_top1_agreement_is_the_share_of_rows_with_the_same_largest_element():
    reference = floats(1, 2, 9, 0, 5, 6, 7, 0).reshape(4, 2)
    other = floats(1, 2, 0, 9, 5, 6, 7, 0).reshape(4, 2)
    assert compared(reference, other).top1_agreement == pytest.approx(0.75)
    assert compared(floats(1, 2), floats(2, 1)).top1_agreement is None


def test_figures_of_large_half_precision_outputs_do_not_overflow():
    found = compared(np.array([60000, -60000] * 50, np.float16), np.array([30000, -30000] * 50, np.float16))
    assert found.relative_error == pytest.approx(0.5, rel=0.01)


def test_a_reference_of_zeros_is_not_judged_and_anything_else_is_infinitely_far():
    assert compared(np.zeros(4, np.float32), np.full(4, 1e-9, np.float32)).relative_error == math.inf
    found = compared(np.zeros(4), np.zeros(4))
    assert found.relative_error == 0.0
    assert found.unjudged == "it is zero on all samples"


def test_whole_numbers_and_booleans_are_compared_exactly():
    found = compared(30_000 + np.arange(100), 30_000 + np.arange(100)[::-1])
    assert (found.mismatched, found.rounding_excess) == (1.0, math.inf)
    assert compared([2**53, 1], [2**53 + 1, 1]).mismatched == 0.5
    assert compared([True, True], [True, False]).mismatched == 0.5
    assert compared([1, 2], [1, 2]).mismatched == 0.0


def test_texts_are_compared_exactly():
    assert compared(np.array(["a", "b"], object), np.array(["a", "b"], object)).drift == NO_DRIFT
    assert compared(np.array(["a", "b"], object), np.array(["a", "c"], object)).mismatched == 0.5


def test_each_element_of_a_sequence_is_an_output():
    found = elements({"parts": [floats(1), floats(2, 3)], "y": floats(4), "none": None})
    assert list(found) == ["parts[0]", "parts[1]", "y"]
    assert sample(found, {**found, "parts[1]": floats(2, 4)})[1].relative_error > 0.5


# What must be caught.


def test_another_shape_is_infinitely_far_even_when_numpy_could_broadcast_it():
    found = compared(np.ones((4, 1)), np.ones((4, 4)))
    assert found.relative_error == math.inf
    assert found.problem == "shape [4, 1] became [4, 4]"


def test_another_dtype_is_infinitely_far_even_with_equal_values():
    found = compared(np.ones(3, np.float32), np.ones(3, np.float16))
    assert found.relative_error == math.inf
    assert found.problem == "dtype float32 became float16"


@pytest.mark.parametrize(
    ("reference", "other", "says"),
    [
        ((1, 2), (1, math.nan), "1 elements became NaN"),
        ((1, math.nan), (1, 2), "NaN in the reference only"),
        ((1, 2), (1, math.inf), "infinite"),
        ((1, math.inf), (1, -math.inf), "infinite"),
        ((1, math.inf), (1, 3), "infinite"),
    ],
)
def test_nan_and_infinity_that_the_other_side_lacks_are_infinitely_far(reference, other, says):
    found = compared(floats(*reference), floats(*other))
    assert found.relative_error == math.inf
    assert says in found.problem
    assert found.overflowed == ("in the reference only" not in says)
    assert found.worst(compared(floats(1, 2), floats(1, 2))).overflowed == found.overflowed


def test_nan_and_infinity_in_the_same_places_count_for_nothing():
    found = compared(floats(math.nan, math.inf, -math.inf, 2), floats(math.nan, math.inf, -math.inf, 2.5))
    assert found.problem == ""
    assert found.relative_error == pytest.approx(0.25, rel=1e-4)
    assert compared(floats(math.nan), floats(math.nan)).problem == ""


def test_an_output_of_zeros_where_there_was_a_signal_is_caught():
    found = compared(floats(1, 2), floats(0, 0))
    assert found.relative_error >= 1
    assert (found.max_abs, found.cosine) == (2.0, 0.0)


def test_elements_in_another_order_are_caught():
    reference = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)
    assert compared(reference, reference[::-1]).relative_error > 0.5
    assert compared(reference, reference[:, ::-1]).relative_error > 0.5


def test_swapped_outputs_of_one_shape_are_caught():
    a, b = floats(1, 2, 3), floats(-3, 1, 0)
    found = sample({"a": a, "b": b}, {"a": b, "b": a})
    assert worst_drift(found).relative_error > 0.5


def test_a_missing_output_is_infinitely_far():
    found = sample({"a": floats(1), "b": floats(2)}, {"a": floats(1)})
    assert worst_drift(found).relative_error == math.inf
    assert found[1].problem == "output 'b' is missing"


@pytest.mark.parametrize("outputs", [{}, {"a": np.zeros((0, 4), np.float32)}])
def test_comparing_nothing_is_an_error_not_a_success(outputs):
    with pytest.raises(OptimError) as caught:
        require_compared(sample(outputs, outputs))
    assert caught.value.reference == "nothing-compared"


def test_an_empty_output_beside_a_full_one_is_no_error():
    outputs = {"empty": np.zeros((0, 4), np.float32), "full": floats(1)}
    assert worst_drift(sample(outputs, outputs)) == NO_DRIFT


# Over outputs and samples.


def test_the_drift_of_a_model_is_the_worst_of_every_figure_over_its_outputs():
    found = sample({"a": floats(1, 0), "b": floats(100, 0)}, {"a": floats(1, 0.5), "b": floats(103, 0)})
    worst = worst_drift(found)
    assert worst.relative_error == max(one.relative_error for one in found) == found[0].relative_error
    assert worst.max_abs == pytest.approx(3.0)
    assert worst.cosine == pytest.approx(1 / math.sqrt(1.25))


def test_the_worst_sample_counts_whatever_the_order():
    good = sample({"a": floats(1, 2)}, {"a": floats(1, 2)})
    bad = sample({"a": floats(1, 2)}, {"a": floats(1, math.nan)})
    for order in ([good, bad], [bad, good]):
        merged = {}
        for comparisons in order:
            merged = merge_samples(merged, comparisons)
        assert merged["a"].relative_error == math.inf
        assert merged["a"].problem
    assert merge_samples(merge_samples({}, good), good)["a"].compared == 4


def test_an_output_that_shows_in_a_later_sample_only_is_not_lost():
    merged = merge_samples({}, sample({"a": floats(1)}, {"a": floats(1)}))
    merged = merge_samples(merged, sample({"b": floats(1)}, {"b": floats(3)}))
    assert merged["b"].relative_error > 1


# Values inside a model.


@pytest.mark.parametrize("size", [1e-5, 1.0, 1e200])
def test_the_distance_of_a_value_inside_is_relative_to_its_size(size):
    assert relative_distance(np.array([3.0, 4.0]) * size, np.array([3.0, 4.5]) * size) == pytest.approx(0.1)


def test_sentinels_that_both_values_inside_have_hide_nothing():
    right = np.random.default_rng(0).standard_normal(90).astype(np.float32)
    masks = np.full(10, -1e9, np.float32)
    masked = np.append(right, masks)
    assert relative_distance(masked, np.append(1.5 * right, masks)) == pytest.approx(0.5)
    assert relative_distance(masked, np.append(right, 0 * masks)) == pytest.approx(1)


def test_nan_and_infinities_inside_stand_where_they_stood():
    right = floats(1, 2, math.nan, -math.inf)
    assert relative_distance(right, right) == 0
    for place, wrong in enumerate((math.nan, math.inf, 3, math.inf)):
        other = right.copy()
        other[place] = wrong
        assert relative_distance(right, other) == math.inf


def test_values_inside_that_are_almost_nothing_are_far_from_none_of_the_like():
    assert relative_distance(np.zeros(4), np.full(4, 1e-7)) == pytest.approx(0.1)
    assert relative_distance(np.zeros(4), np.full(4, 5e-324)) == relative_distance(np.zeros(0), np.zeros(0)) == 0
