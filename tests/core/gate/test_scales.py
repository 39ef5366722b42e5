"""Outputs that mix scales: what happens to small slices counts, though the whole hardly moves."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from optim._engine.compare.original_outputs import mixing_outputs
from optim._engine.compare.place import Reference
from optim._engine.feeds.feedset import FeedWriter
from optim._engine.gate.budget import BeyondBudget, Budget
from optim._engine.gate.outputs import compare_output, compare_sample, mixed_outputs


@pytest.fixture
def detections():
    """Four coordinates of hundreds beside eight scores below one, as a detector gives them out; one is never seen."""
    rng = np.random.default_rng(0)
    boxes = rng.uniform(100, 600, (1, 4, 50))
    scores = rng.uniform(0, 0.5, (1, 8, 50))
    scores[:, -1] = 1e-7
    return np.concatenate([boxes, scores], axis=1).astype(np.float32)


def moved(detections, places, factor):
    other = detections.copy()
    other[:, places] *= np.float32(factor)
    return compare_output("output0", detections, other)


def test_the_drift_of_small_slices_counts_though_the_whole_hardly_moves(detections):
    found = moved(detections, slice(4, 11), 1.3)
    assert found.relative_l2 == pytest.approx(0.3, rel=1e-4)
    assert found.slices.startswith("slices 4 to 10 of axis 1, of magnitude 0.3 beside 4.2e+02")
    objection = Budget(0.05, 1e-4).objection([found], lossy=True)
    assert isinstance(objection, BeyondBudget)
    assert "at output 'output0' (slices 4 to 10 of axis 1" in objection


def test_what_is_negligible_beside_the_largest_does_not_count(detections):
    found = moved(detections, slice(11, 12), 3.0)
    assert (found.relative_l2 < 1e-6, found.slices) == (True, "")


def test_a_channel_that_is_next_to_dead_is_no_kind_of_its_own():
    reference = np.random.default_rng(0).standard_normal((6, 96)).astype(np.float32)
    reference[:, 89] *= np.float32(1e-4)
    other = reference.copy()
    other[:, 89] = 0
    found = compare_output("y", reference, other)
    assert (found.relative_l2 < 1e-3, found.slices) == (True, "")


def test_probabilities_of_one_picture_are_no_kinds():
    """Their scale is chance: the class that was seen has nearly all of it."""
    reference = np.array([[0.97, 0.03, 1e-4, 2e-4, 1e-4, 1e-4, 3e-4, 1e-4, 1e-4, 1e-4]], np.float32)
    for seen in (reference, reference * 100):
        found = compare_output("scores", seen, seen + np.float32(1e-3) * seen.max())
        assert (found.relative_l2 < 0.01, found.slices) == (True, "")


def test_classes_that_were_not_seen_are_no_kind_beside_those_that_were():
    reference = np.random.default_rng(0).uniform(0, 0.9, (1, 10, 400)).astype(np.float32)
    reference[:, 5:] *= np.float32(1e-4)
    other = reference.copy()
    other[:, 5:] *= 3
    found = compare_output("scores", reference, other)
    assert (found.relative_l2 < 0.01, found.slices) == (True, "")


def test_the_drift_of_large_slices_counts_as_before(detections):
    found = moved(detections, slice(0, 4), 1.1)
    assert found.relative_l2 == pytest.approx(0.1, rel=1e-4)


def test_slices_of_about_one_scale_have_one_drift():
    rng = np.random.default_rng(0)
    reference = (rng.standard_normal((2, 16, 8)) * np.geomspace(1, 50, 8)).astype(np.float32)
    other = reference.copy()
    other[..., 0] *= 2
    found = compare_output("y", reference, other)
    assert (found.relative_l2 < 0.05, found.slices) == (True, "")
    assert mixed_outputs({"y": reference}) == {}


def test_padding_has_no_scale(detections):
    valid = np.ones((1, 1, 50), bool)
    valid[..., 25:] = False
    other = detections.copy()
    other[:, 4:11, :25] *= np.float32(1.3)
    other[..., 25:] = 7
    found = compare_output("y", detections, other, valid)
    assert found.relative_l2 == pytest.approx(0.3, rel=1e-4)


def test_an_output_that_is_the_same_has_no_drift_in_any_slice(detections):
    found = compare_output("y", detections, detections.copy())
    assert (found.relative_l2, found.slices) == (0.0, "")


def test_the_worst_of_two_samples_says_in_which_slices_it_is(detections):
    small, large = moved(detections, slice(4, 11), 1.3), moved(detections, slice(0, 4), 1.4)
    assert small.worst(large).slices == large.slices
    assert large.worst(moved(detections, slice(4, 11), 1.5)).slices.startswith("slices 4 to 10")


def test_what_mixes_scales_is_told_of_the_original(detections):
    (text,) = mixed_outputs({"output0": detections, "ids": np.arange(3)}).values()
    assert text.startswith("slices 4 to 10 of axis 1, of magnitude 0.3 beside 4.2e+02")


def test_whether_an_output_mixes_scales_is_looked_at_once_on_every_sample(detections, tmp_path):
    """Comparisons of a run look at slices of such outputs alone: to look at all took 11 % of a comparison."""
    samples = [{"output0": np.ones_like(detections)}, {"output0": detections}]
    for name in ("feeds", "outputs"):
        with FeedWriter(tmp_path / name) as writer:
            for sample in samples:
                writer.add(sample)
            writer.finish("made", ())
    original = SimpleNamespace(inputs=(), outputs=())
    assert list(mixing_outputs(Reference(tmp_path / "feeds", tmp_path / "outputs", original, (0, 1)))) == ["output0"]
    other = {"output0": detections.copy()}
    other["output0"][:, 4:11] *= np.float32(1.3)

    def drift(mixed):
        return compare_sample(samples[1], other, {}, (), (), mixed)[0].relative_l2

    assert drift(()) < 0.01 < 0.29 < drift(("output0",)) == drift(None)
