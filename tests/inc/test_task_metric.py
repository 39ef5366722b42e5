"""A whole run: neural-compressor tries models, and the run's own task metric says how good each of them is."""

from __future__ import annotations

from optim.runs.run import run
from optim.testing import models


def test_the_users_metric_is_asked_of_every_model_that_is_tried(tmp_path):
    report = run(
        models.encoder(tmp_path), tmp_path / "out", metric="cosine", max_drift=0.9, search_seconds=10,
        passes={"inc.quantize-aware-of-accuracy": {"tolerable_loss": 0.5, "max_trials": 3}}, stages=["quantize"],
    )  # fmt: skip
    said = " ".join(note for step in report.steps for note in step.notes) + str(report.as_json())
    assert "inc.quantize-aware-of-accuracy" in said
    assert "in float; of the models tried: 0.99" in said
