"""Samples that no pass sees: what is right on those alone that it was fitted to is found out."""

from __future__ import annotations

import numpy as np
import pytest
from installed_plugin import installed
from timed_models import BATCH, WIDTH, write_network

from optim._engine.plugins.registry import load_registry
from optim._engine.reports.build import build_report
from optim._engine.reports.outcome import RunStatus
from optim._engine.runs.execute import execute
from optim._engine.search.settings import Named, RunSettings
from optim._engine.store import Store
from optim.passes import Stage

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("jobs_here", "counted_clock")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("held-out")
    with installed(folder, "fitted_plugin"):
        write_network(folder / "model.onnx", {"a": 8}, useful=2)
        yield folder


def run(folder, samples, large):
    """A run with the pass alone, on so many samples, of which one has values ten times as large."""
    rng = np.random.default_rng(0)
    arrays = {f"{i}/x": rng.standard_normal((BATCH, WIDTH)).astype(np.float32) for i in range(samples)}
    arrays[f"{large}/x"] *= 10
    np.savez(folder / f"{samples}.npz", **arrays)
    registry = load_registry()
    offers = {offered.name for offered in registry.offers(registry.target("cpu"))}
    settings = RunSettings(
        source=folder / "model.onnx",
        data=str(folder / f"{samples}.npz"),
        named=(Named("fitted.clip", None),),
        without=tuple(sorted(offers - {"fitted.clip"})),
        max_drift=0.05,
        search_seconds=300.0,
        stages=(Stage.QUANTIZE,),
    )
    outcome = execute(settings, registry, Store(), lambda text: None)
    (row,) = (one for one in outcome.attempts if one.step.pass_name == "fitted.clip")
    return outcome, row


def test_what_holds_on_the_samples_it_was_fitted_to_alone_is_found_out(folder):
    outcome, row = run(folder, 4, large=2)
    assert outcome.status is RunStatus.BUDGET_MISSED
    assert row.reason.startswith("drift ")
    assert row.notes == ("calibrated on 3 of 4 samples, judged on the others too",)


def test_with_too_few_samples_to_hold_one_out_the_step_says_so(folder):
    outcome, row = run(folder, 3, large=2)
    assert outcome.status is RunStatus.IMPROVED
    assert any(note.startswith("calibrated on the 3 samples used to measure drift") for note in row.notes)
    assert build_report(outcome).feeds.held_out == 0
