"""What drift to expect of further samples: figures worked out elsewhere, and what a budget makes of them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from optim._engine.gate.budget import Budget
from optim._engine.gate.drift import merge_samples, worst_drift
from optim._engine.gate.outputs import compare_output
from optim.drift import foresee

SEEN = (0.0264, 0.0261, 0.0285, 0.0277, 0.0257, 0.0282, 0.0283, 0.0265)


def compared(drifts, name="logits"):
    reference = np.ones(10)
    total = {}
    for drift in drifts:
        total = merge_samples(total, [compare_output(name, reference, reference * (1 + drift))])
    return list(total.values())


@pytest.mark.parametrize(("count", "quantile"), [(4, 4.541), (8, 2.998), (31, 2.457)])
def test_the_bound_is_that_of_student(count, quantile):
    drifts = np.random.default_rng(0).normal(0.03, 0.001, count)
    bound = drifts.mean() + quantile * drifts.std(ddof=1) * math.sqrt(1 + 1 / count)
    assert foresee(drifts.tolist()) == pytest.approx(bound, rel=5e-3)


def test_of_a_hundred_further_samples_about_one_is_beyond():
    rng = np.random.default_rng(0)
    beyond = [rng.normal(0.03, 0.002) > foresee(rng.normal(0.03, 0.002, 8).tolist()) for _ in range(3000)]
    assert 0.004 < np.mean(beyond) < 0.018


@pytest.mark.parametrize("drifts", [(), (0.1,), (0.1, 0.2, 0.3), (0.02,) * 9, (0.0, 0.0, math.inf, 0.0)])
def test_where_no_spread_is_seen_the_worst_counts(drifts):
    assert foresee(drifts) == pytest.approx(max(drifts, default=0.0))


def test_a_budget_on_own_data_is_held_on_further_samples():
    found = compared(SEEN)
    assert worst_drift(found).relative_error == pytest.approx(0.0285)
    assert worst_drift(found).foreseen == pytest.approx(0.0307, abs=2e-4)
    assert Budget(0.03, 1e-4).objection(found, lossy=True).text == ""
    assert Budget(0.03, 1e-4, foresees=True).objection(found, lossy=True).text == (
        "drift of further samples at output 'logits', up to 0.0307 after 0.0257 to 0.0285 on 8 samples, "
        "is beyond the budget (0.03)"
    )
    assert Budget(0.031, 1e-4, foresees=True).objection(found, lossy=True).text == ""


def test_the_output_that_spreads_most_is_named_though_another_is_worse_so_far():
    calm, wild = compared((0.029,) * 6, "calm"), compared((0.01, 0.028) * 3, "wild")
    assert "'wild'" in Budget(0.03, 1e-4, foresees=True).objection([*calm, *wild], lossy=True).text


def test_what_is_beyond_the_budget_already_is_said_plainly():
    objection = Budget(0.028, 1e-4, foresees=True).objection(compared(SEEN), lossy=True).text
    assert objection == "drift 0.0285 at output 'logits' is beyond the budget (0.028)"


def test_rounding_is_held_on_the_samples_that_there_are():
    assert Budget(None, 1e-4, foresees=True).objection(compared((6e-5, 9e-5) * 4), lossy=False).text == ""


def test_a_repair_leaves_room_for_further_samples():
    assert Budget(0.03, 1e-4, foresees=True).repair_limit < 0.03 == Budget(0.03, 1e-4).repair_limit


def test_how_far_beyond_the_budget_counts_further_samples():
    drift = worst_drift(compared(SEEN))
    assert Budget(0.03, 1e-4).excess(drift, None) < 1 < Budget(0.03, 1e-4, foresees=True).excess(drift, None)
