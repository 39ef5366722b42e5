"""Which samples no pass sees."""

from __future__ import annotations

import numpy as np
import pytest

from optim._engine.compare.place import judged_on
from optim._engine.feeds.feedset import SYNTHESIZED, FeedWriter
from optim._engine.jobs.offer import Calibration


@pytest.fixture
def feeds(tmp_path):
    def make(count):
        with FeedWriter(tmp_path / str(count)) as writer:
            for number in range(count):
                writer.add({"x": np.float32([number])})
            return writer.finish("given", ())

    return make


@pytest.mark.parametrize(("count", "held_out"), [(1, ()), (3, ()), (4, (2,)), (6, (2,)), (7, (2, 6)), (8, (2, 6))])
def test_one_in_four_is_held_out_from_the_third_on(feeds, count, held_out):
    found = feeds(count)
    assert found.held_out == held_out
    assert sorted(found.held_out + found.calibration) == list(range(count))


def test_a_pass_is_given_the_others(feeds):
    samples = Calibration(feeds(5).folder)
    assert not samples.notes
    assert [float(sample["x"][0]) for sample in samples()] == [0, 1, 3, 4]
    assert [float(sample["x"][0]) for sample in samples()] == [0, 1, 3, 4]
    assert samples.notes == ("calibrated on 4 of 5 samples, judged on the others too",)


def test_drift_is_measured_on_those_held_out_first(feeds):
    assert judged_on(feeds(8), 32) == (2, 6, 0, 1, 3, 4, 5, 7)
    assert judged_on(feeds(8), 3) == (2, 6, 0)
    assert judged_on(feeds(40), 4) == (2, 14, 26, 38)
    assert judged_on(feeds(2), 32) == (0, 1)


def test_of_made_up_samples_none_is_held_out(tmp_path):
    with FeedWriter(tmp_path / "made") as writer:
        for number in range(8):
            writer.add({"x": np.float32([number])})
        found = writer.finish(SYNTHESIZED, ())
    assert found.held_out == ()
    assert found.calibration == tuple(range(8))
