"""What rounding does to an output is measured slice by slice, and explains an error in the same slice only."""

from __future__ import annotations

import dataclasses
import math
from types import SimpleNamespace

import numpy as np
import pytest

from optim._engine.compare.original import next_numbers
from optim._engine.gate.drift import CAP, FLOOR
from optim._engine.gate.outputs import WHOLE, compare_output, measure, rounding_of
from optim.model import TensorInfo

ROWS = 64
REFERENCE = np.array([[1.0, 1.0, 1.0], [-1.0, -1.0, -1.0]] * (ROWS // 2))
"""Three columns whose deviation is 1, and a little more, since the middle takes a degree of freedom."""

SCALE = math.sqrt(ROWS / (ROWS - 1))
MODEL = SimpleNamespace(inputs=(), outputs=(TensorInfo("y", "float64", (ROWS, 3)),))


def moved(column, error):
    other = REFERENCE.copy()
    other[:, column] += error
    return other


def rounded(error=1e-4, column=2):
    variation = measure([(REFERENCE, None)])
    found = rounding_of("y", REFERENCE, moved(column, error), {}, MODEL, variation)
    return variation.with_rounding(found)


def test_rounding_is_measured_for_each_slice_and_for_the_whole():
    found = rounded().rounding
    np.testing.assert_allclose(found[1], [0, 0, 1e-4 / SCALE], rtol=0.02)
    np.testing.assert_allclose(found[WHOLE], [1e-4 / SCALE / math.sqrt(3)], rtol=0.02)
    assert set(found) == {WHOLE, 1}


def test_ten_times_what_rounding_does_to_a_slice_is_explained_there_and_not_in_another():
    variation = rounded()
    explained = compare_output("y", REFERENCE, moved(2, 5e-4), None, variation)
    assert explained.is_rounding
    assert explained.relative_error > FLOOR
    elsewhere = compare_output("y", REFERENCE, moved(0, 5e-4), None, variation)
    assert elsewhere.relative_error == pytest.approx(explained.relative_error)
    assert not elsewhere.is_rounding
    assert not compare_output("y", REFERENCE, moved(2, 2e-3), None, variation).is_rounding


def test_the_floor_explains_what_no_setting_moves():
    variation = rounded(error=0.0)
    assert compare_output("y", REFERENCE, moved(0, 0.9 * FLOOR), None, variation).is_rounding
    assert not compare_output("y", REFERENCE, moved(0, 3 * FLOOR), None, variation).is_rounding


def test_nothing_above_the_cap_is_explained():
    variation = rounded(error=0.1)
    assert compare_output("y", REFERENCE, moved(2, 0.9 * CAP), None, variation).is_rounding
    assert not compare_output("y", REFERENCE, moved(2, 2 * CAP), None, variation).is_rounding


def test_of_whole_numbers_the_share_that_settings_change_is_measured():
    ids, other = np.arange(1000), np.arange(1000)
    other[0] = -1
    of = SimpleNamespace(inputs=(), outputs=(TensorInfo("ids", "int64", (1000,)),))
    variation = measure([(ids, None)])
    variation = variation.with_rounding(rounding_of("ids", ids, other, {}, of, variation))
    np.testing.assert_allclose(variation.rounding[WHOLE], [0.001])
    five, twenty = ids.copy(), ids.copy()
    five[:5], twenty[:20] = -1, -1
    assert compare_output("ids", ids, five, None, variation).is_rounding
    assert not compare_output("ids", ids, twenty, None, variation).is_rounding
    unmeasured = dataclasses.replace(variation, rounding={})
    assert not compare_output("ids", ids, other, None, unmeasured).is_rounding


def test_an_output_that_is_zero_has_no_rounding():
    zeros = np.zeros((4, 3))
    assert rounding_of("y", zeros, zeros, {}, MODEL, measure([(zeros, None)])) == {}


def test_feeds_of_floats_move_by_some_units_in_the_last_place_and_others_stay():
    feeds = {"x": np.linspace(1, 2, 50, dtype=np.float32), "ids": np.arange(3), "flag": np.array([True])}
    found = next_numbers(feeds)
    steps = np.abs(found["x"] - feeds["x"]) / np.spacing(feeds["x"])
    assert found["x"].dtype == np.float32
    assert steps.min() >= 3
    assert steps.max() <= 9
    assert all(found[name] is feeds[name] for name in ("ids", "flag"))
