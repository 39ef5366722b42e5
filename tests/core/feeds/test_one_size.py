"""Dimensions that all samples of a user have at one size."""

from __future__ import annotations

import numpy as np
import pytest

from optim._engine.feeds.feedset import SYNTHESIZED, FeedWriter, at_one_size
from optim.model import TensorInfo

INPUTS = (
    TensorInfo("ids", "int64", ("batch", "sequence")),
    TensorInfo("mask", "int64", ("batch", "sequence")),
    TensorInfo("image", "float32", (None, 3, None, None)),
)


@pytest.fixture
def given(tmp_path):
    def of(*lengths: int, origin: str = "feeds.npz"):
        with FeedWriter(tmp_path / origin) as writer:
            for length in lengths:
                ids = np.zeros((1, length), np.int64)
                writer.add({"ids": ids, "mask": ids, "image": np.zeros((1, 3, 8, length), np.float32)})
            return writer.finish(origin, ())

    return of


def test_what_varies_and_what_is_fixed_in_the_graph_is_left_out(given):
    assert at_one_size(given(5, 7), range(2), INPUTS) == ("image[2]=8",)


def test_a_name_that_several_inputs_have_is_said_once(given):
    assert at_one_size(given(5, 5), range(2), INPUTS) == ("sequence=5", "image[2]=8", "image[3]=5")


def test_one_sample_and_made_up_ones_say_nothing(given):
    assert at_one_size(given(5), range(1), INPUTS) == ()
    assert at_one_size(given(5, 5, origin=SYNTHESIZED), range(2), INPUTS) == ()
