"""Padding is left out of a comparison where an output carries the mask's sequence axis, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from optim._engine.gate.drift import worst_drift
from optim._engine.gate.outputs import compare_sample, valid_positions
from optim.model import Model, TensorInfo

MASK = np.array([[1, 1, 1, 0], [1, 1, 0, 0]], np.int64)
"""Two sequences of four positions, three of them padding."""

BATCH, SEQUENCE = 2, 4


def mask_info(name="attention_mask", shape=("batch", "seq")):
    return TensorInfo(name, "int64", shape)


def masked(masks, outputs):
    """A model with these masks as inputs."""
    return Model(Path("model.onnx"), "", tuple(masks), tuple(outputs), {}, 10)


def drift_with_noise_at(valid, *, shape=("batch", "seq", 8), array_shape=(BATCH, SEQUENCE, 8), feeds=None, masks=None):
    """Drift of an output that differs by a lot where ``valid`` (over batch and axis 1) says so."""
    reference = np.ones(array_shape, np.float32)
    other = reference + 5 * np.asarray(valid, np.float32).reshape(*np.shape(valid), *[1] * (len(array_shape) - 2))
    feeds = {"attention_mask": MASK} if feeds is None else feeds
    info = TensorInfo("y", "float32", shape)
    found = compare_sample({"y": reference}, {"y": other}, feeds, masked(masks or [mask_info()], [info]))
    return worst_drift(found).relative_error


def test_padding_is_left_out_by_the_symbolic_name_of_the_axis():
    assert drift_with_noise_at(MASK == 0) == 0.0


def test_padding_is_left_out_by_size_where_the_output_names_no_axis():
    assert drift_with_noise_at(MASK == 0, shape=None) == 0.0
    assert drift_with_noise_at(MASK == 0, shape=(None, None, None)) == 0.0


def test_real_positions_are_compared():
    assert drift_with_noise_at(MASK == 1) > 1
    only_one = np.zeros_like(MASK)
    only_one[1, 1] = 1
    assert drift_with_noise_at(only_one) > 0.5


@pytest.mark.parametrize("dtype", [np.int32, np.bool_, np.float32])
def test_masks_of_any_dtype_count(dtype):
    assert drift_with_noise_at(MASK == 0, feeds={"attention_mask": MASK.astype(dtype)}) == 0.0


def test_nan_at_padding_is_wrong_if_the_reference_has_a_number_there():
    """Mean pooling multiplies by the mask, and NaN times zero is NaN."""
    numbers = np.ones((BATCH, SEQUENCE, 8), np.float32)
    with_nan = np.where((MASK == 0)[..., None], np.nan, numbers).astype(np.float32)
    info = TensorInfo("y", "float32", ("batch", "seq", 8))
    for reference, other, problem in ((numbers, with_nan, "at padded positions"), (with_nan, numbers, "")):
        (found,) = compare_sample(
            {"y": reference}, {"y": other}, {"attention_mask": MASK}, masked([mask_info()], [info])
        )
        assert problem in found.problem
        assert bool(problem) == bool(found.problem)


def test_top1_agreement_counts_real_rows_only():
    reference = np.tile(np.array([0, 1], np.float32), (BATCH, SEQUENCE, 1))
    other = np.where((MASK == 0)[..., None], reference[..., ::-1], reference)
    (found,) = compare_sample({"y": reference}, {"y": other}, {"attention_mask": MASK}, masked([mask_info()], []))
    assert found.top1_agreement == 1.0


def test_another_axis_of_the_same_size_is_not_the_sequence():
    """A pooled output of as many features as there are positions has no padding."""
    assert drift_with_noise_at(MASK == 0, shape=("batch", 4), array_shape=(BATCH, SEQUENCE)) > 0.5
    assert drift_with_noise_at(MASK == 0, shape=("batch", 4, "heads"), array_shape=(BATCH, SEQUENCE, 3)) > 0.5


def test_the_symbolic_name_decides_between_two_axes_of_one_size():
    reference = np.ones((BATCH, 4, 4), np.float32)
    info = TensorInfo("y", "float32", ("batch", "heads", "seq"))
    valid = valid_positions("y", reference, {"attention_mask": MASK}, masked([mask_info()], [info]))
    assert valid is not None
    assert valid.shape == (BATCH, 1, SEQUENCE)
    assert valid_positions("y", reference, {"attention_mask": MASK}, masked([mask_info()], [])) is None


def test_an_output_of_another_batch_is_not_masked():
    assert drift_with_noise_at(np.ones((1, SEQUENCE)), array_shape=(1, SEQUENCE, 8)) > 1


def test_a_mask_without_padding_masks_nothing():
    reference = np.ones((BATCH, SEQUENCE, 8), np.float32)
    full = {"attention_mask": np.ones_like(MASK)}
    assert valid_positions("y", reference, full, masked([mask_info()], [])) is None


def test_an_input_that_is_no_mask_of_zeros_and_ones_masks_nothing():
    reference = np.ones((BATCH, SEQUENCE, 8), np.float32)
    for name, array in (("attention_mask", MASK * 7), ("attention_mask", MASK[None]), ("input_ids", MASK)):
        assert valid_positions("y", reference, {name: array}, masked([mask_info(name)], [])) is None


def test_an_all_padding_sample_compares_nothing():
    assert drift_with_noise_at(MASK == 0, feeds={"attention_mask": np.zeros_like(MASK)}) == 0.0


def test_a_mask_of_padding_or_of_scattered_positions_hides_nothing():
    reference = np.ones((BATCH, SEQUENCE, 8), np.float32)
    scattered = np.array(MASK)
    scattered[0, ::2] = 0
    for name, mask in (("key_padding_mask", MASK), ("attention_mask", scattered)):
        assert valid_positions("y", reference, {name: mask}, masked([mask_info(name)], [])) is None


def test_each_output_is_masked_by_the_mask_of_its_own_side():
    """An encoder-decoder has two masks; the axis of the output says which of them is meant."""
    decoder = np.array([[1, 0, 0], [1, 1, 1]], np.int64)
    masks = [mask_info(shape=("batch", "encoder")), mask_info("decoder_attention_mask", ("batch", "decoder"))]
    feeds = {"attention_mask": MASK, "decoder_attention_mask": decoder}
    shapes = {"shape": ("batch", "decoder", 8), "array_shape": (BATCH, 3, 8), "feeds": feeds, "masks": masks}
    assert drift_with_noise_at(decoder == 0, **shapes) == 0.0
    assert drift_with_noise_at(decoder == 1, **shapes) > 1
