"""Whole runs with a task metric: the labels are what the original itself answers, and a pass adds noise to a weight."""

from __future__ import annotations

import json
import tomllib

import numpy as np
import pytest
from installed_plugin import installed
from timed_models import BATCH, WIDTH, write_network

from optim import run as run_api
from optim._engine.compare.metric_spec import parse_metric
from optim._engine.gate.budget import parse_max_loss
from optim._engine.plugins.registry import load_registry
from optim._engine.reports.outcome import RunStatus
from optim._engine.runs.compare.verify import verify_models
from optim._engine.runs.execute import execute
from optim._engine.search.settings import Named, RunSettings
from optim._engine.search.state import StepStatus
from optim._engine.store import Store
from optim.errors import OptimError
from optim.model import SessionConfig
from optim.onnx.sessions import open_session
from optim.passes import Stage

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("jobs_here", "counted_clock")]

SAMPLES = 12
METRIC = "lowest:same"
LOWEST = """
def same(outputs, labels):
    return (outputs['y'].argmin(-1) == labels['label']).mean()

def moody(outputs, labels):
    assert same(outputs, labels) == 1, 'not like the original'
    return 1.0
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("task")
    with installed(folder, "timed_plugin"):
        model = write_network(folder / "model.onnx", {"c": 30})
        session = open_session(model, SessionConfig())
        rng = np.random.default_rng(0)
        arrays = {}
        for number in range(SAMPLES):
            x = rng.standard_normal((BATCH, WIDTH)).astype(np.float32)
            arrays[f"{number}/x"] = x
            arrays[f"{number}/label"] = session.run(None, {"x": x})[0].argmin(-1)
        np.savez(folder / "feeds.npz", **arrays)
        (folder / "site" / "lowest.py").write_text(LOWEST)
        yield folder


@pytest.fixture(scope="module")
def others(folder):
    """The passes that are not looked at here."""
    registry = load_registry()
    names = {offered.name for offered in registry.offers(registry.target("cpu"))}
    return tuple(sorted(names - {"timed.round"}))


@pytest.fixture
def run(folder, others):
    def make(strength=None, **changes):
        named = (Named("timed.round", {"strength": strength}),) if strength else ()
        settings = RunSettings(
            **{
                "source": folder / "model.onnx",
                "data": str(folder / "feeds.npz"),
                "metric": parse_metric(METRIC),
                "named": named,
                "without": others,
                "stages": (Stage.QUANTIZE,),
                "search_seconds": 20.0,
                **changes,
            }
        )
        return execute(settings, load_registry(), Store(), lambda text: None)

    return make


def test_a_loss_beyond_the_budget_misses_it(run):
    found = run(1.5, max_loss=parse_max_loss("1%"))
    assert found.status is RunStatus.BUDGET_MISSED
    assert "the metric fell from 1 to" in found.reason
    assert "beyond the budget of 1%" in found.reason


def test_a_metric_that_raises_on_a_candidate_costs_that_candidate(run):
    found = run(1.5, metric=parse_metric("lowest:moody"), max_loss=parse_max_loss("1%"))
    assert found.status is RunStatus.FAILED
    row = next(one for one in found.attempts if one.step.pass_name == "timed.round")
    assert row.status is StepStatus.FAILED
    assert "not like the original" in row.reason


def test_a_metric_that_cannot_be_measured_ends_the_run_before_the_search(folder, run):
    with pytest.raises(OptimError) as caught:
        run(metric=parse_metric("top-1:output='z'"))
    assert caught.value.reference == "metric-failed"
    np.savez(folder / "bare.npz", x=np.zeros((BATCH, WIDTH), np.float32))
    with pytest.raises(OptimError) as caught:
        run(data=str(folder / "bare.npz"), metric=parse_metric("top-1"))
    assert caught.value.reference == "metric-needs-labels"


def test_without_a_bound_a_metric_informs_even_of_one_sample_and_the_report_says_how_little_that_means(folder, run):
    with np.load(folder / "feeds.npz") as arrays:
        np.savez(folder / "one.npz", x=arrays["0/x"], label=arrays["0/label"])
    found = run(0.02, data=str(folder / "one.npz"), max_drift=0.3)
    assert found.result.candidate.task.error is None
    assert any(f"on a single batch of {BATCH};" in note for note in found.prepared.notes)


def test_a_loss_within_the_budget_is_delivered_whatever_the_drift_and_report_lock_and_verify_agree(folder, others):
    from optim._engine.recipes.lock import load_recipe_or_lock

    out = folder / "out"
    report = run_api(
        folder / "model.onnx",
        out,
        data=str(folder / "feeds.npz"),
        metric=METRIC,
        max_loss="40%",
        passes={"timed.round": {"strength": 0.1}},
        without=others,
        search_seconds=20,
    )
    assert report.status == "improved"
    assert report.result.drift.relative_error > 0.05
    assert report.result.task.value == pytest.approx(1 - report.result.task.loss)
    assert (report.result.task.metric, report.result.task.original, report.result.task.samples) == (METRIC, 1, SAMPLES)
    assert any(step.task_value is not None for step in report.steps)
    assert report.budget.max_loss == "40%"
    assert report.budget.max_drift is None
    assert json.loads((out / "report.json").read_text())["result"]["task"]["value"] == report.result.task.value
    lock = tomllib.loads((out / "recipe.lock.toml").read_text())
    assert (lock["metric"], lock["budget"]["max_loss"]) == (METRIC, "40%")
    assert load_recipe_or_lock(out / "recipe.lock.toml").result.task_value == pytest.approx(report.result.task.value)
    found = verify_models(
        folder / "model.onnx",
        out,
        RunSettings(
            folder / "model.onnx",
            data=str(folder / "feeds.npz"),
            metric=parse_metric(METRIC),
            max_loss=parse_max_loss("0.0001"),
        ),
        lambda text: None,
    )
    assert found.task.value == pytest.approx(report.result.task.value)
    assert found.within == (report.result.task.loss <= 0.0001)


def test_a_missed_budget_leaves_an_earlier_result_and_is_reported_beside_it(folder, others, capsys):
    from optim._engine.cli.main import main

    out = folder / "kept"
    words = ["--data", str(folder / "feeds.npz"), "--metric", METRIC, "--search-seconds", "20", "--stage", "quantize"]
    words += [word for name in others for word in ("--without", name)]
    asked = ["run", str(folder / "model.onnx"), "-o", str(out), *words, "--max-loss"]
    assert main([*asked, "40%", "--with", "timed.round:strength=0.1"]) == 0
    before = {path.name: path.read_bytes() for path in out.iterdir() if path.name != "run.json"}
    assert main([*asked, "1%", "--with", "timed.round:strength=1.5"]) == 4
    told = capsys.readouterr()
    assert f"the earlier one in {out} stays" in told.err
    assert str(out / "not-delivered" / "nearest" / "model.onnx") in told.out
    assert (out / "not-delivered" / "nearest" / "model.onnx").is_file()
    assert json.loads((out / "not-delivered" / "report.json").read_text())["status"] == "budget-missed"
    assert {name: (out / name).read_bytes() for name in before} == before


@pytest.mark.parametrize("word", ["quickest", "0", "-1", "1.5"])
def test_what_can_be_no_point_is_refused_before_anything_is_searched(folder, word):
    with pytest.raises(OptimError) as caught:
        run_api(folder / "model.onnx", folder / "nothing", pick=word)
    assert caught.value.reference == "unknown-point"
    assert not (folder / "nothing").exists()


def test_a_metric_without_data_is_refused_at_once(folder):
    with pytest.raises(OptimError, match="needs data") as caught:
        run_api(folder / "model.onnx", folder / "nothing", metric=METRIC, max_loss="1%")
    assert caught.value.reference == "data-required"
    assert not (folder / "nothing").exists()


@pytest.mark.parametrize("max_loss", ["1", "100%"])
def test_a_loss_that_allows_everything_is_refused_with_what_was_meant(run, max_loss):
    with pytest.raises(OptimError) as refused:
        run(1.5, max_loss=parse_max_loss(max_loss))
    assert refused.value.reference == "bad-budget" and "of the original is 1" in refused.value.what
    assert refused.value.fix == "--max-loss 1%, or --max-loss 0.01"
