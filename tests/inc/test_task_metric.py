"""A whole run: neural-compressor tries models, and the run's own task metric says how good each of them is."""

from __future__ import annotations

import numpy as np
import pytest

from optim import run
from optim_testing import models

pytestmark = pytest.mark.slow


def test_the_users_metric_is_asked_of_every_model_that_is_tried(tmp_path):
    rng = np.random.default_rng(0)
    feeds = {f"{i}/input_ids": rng.integers(0, 50, (2, 16)) for i in range(4)}
    np.savez(tmp_path / "feeds.npz", **feeds, **{f"{i}/attention_mask": np.ones((2, 16), np.int64) for i in range(4)})
    report = run(
        models.encoder(tmp_path),
        tmp_path / "out",
        data=str(tmp_path / "feeds.npz"),
        metric="cosine",
        max_drift=0.9,
        search_seconds=200,
        stages=["quantize"],
        passes={"inc.quantize-aware-of-accuracy": {"tolerable_loss": 0.5, "max_trials": 3}},
    )
    said = " ".join(note for step in report.steps for note in step.notes) + str(report.as_json())
    assert "inc.quantize-aware-of-accuracy" in said
    assert "in float; of the models tried: 0.99" in said
