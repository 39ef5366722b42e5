"""What a source computes is recorded only if it computes the same again, on each trial."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from optim.errors import OptimError
from optim.model import TensorInfo
from optim.source import Component, Source, SourceRequest, Trial, TrialStep
from optim_plugins.export.record import record


def source(run) -> Source:
    def trials():
        rng = np.random.default_rng(0)
        sizes = (1, 2, 3)
        samples = [rng.standard_normal((size, 1)).astype(np.float32) for size in sizes]
        valid = {"y": np.array([[True], [False], [False]])}
        return [Trial(f"{len(x)} rows", (TrialStep({"x": x}, valid if len(x) == 3 else {}),)) for x in samples]

    x, y = (TensorInfo(name, "float32", ("batch", 1)) for name in "xy")
    part = Component("model", None, (x,), (y,), {"x": np.ones((1, 1), np.float32)}, trials, run)
    return Source(SourceRequest("made"), (part,))


@pytest.mark.parametrize("rows", [1, 2])
def test_a_source_that_draws_on_one_trial_is_refused(rows: int, tmp_path: Path) -> None:
    random = np.random.default_rng(1)

    def run(feeds):
        moved = random.standard_normal() if len(feeds["x"]) == rows else 0.0
        return {"y": 100 + 0.01 * (feeds["x"] + np.float32(moved))}

    with pytest.raises(OptimError) as caught:
        record(source(run), tmp_path)
    assert caught.value.reference == "source-not-repeatable"


def test_positions_that_do_not_count_may_be_others_each_time(tmp_path: Path) -> None:
    random = np.random.default_rng(1)

    def run(feeds):
        y = np.array(feeds["x"])
        y[1:] += random.standard_normal() if len(y) == 3 else 0.0
        return {"y": y}

    (found,) = record(source(run), tmp_path).components
    assert [trial.name for trial in found.trials] == ["1 rows", "2 rows", "3 rows"]
