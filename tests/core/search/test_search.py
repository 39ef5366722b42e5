"""Whole runs on a small network, with passes that really make it faster: what is kept, and what is remembered."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import nullcontext

import numpy as np
import onnx
import pytest
from installed_plugin import installed
from jobs_here import done_here
from timed_models import write_network

from optim._engine.feeds.feedset import FeedSet
from optim._engine.gate.drift import worst_drift
from optim._engine.gate.outputs import compare_sample
from optim._engine.plugins.registry import load_registry
from optim._engine.reports.outcome import RunStatus
from optim._engine.runs.execute import execute
from optim._engine.search.settings import Named, RunSettings
from optim._engine.search.state import StepStatus
from optim._engine.store import Store
from optim.errors import OptimError
from optim.model import SessionConfig
from optim.onnx.sessions import open_session
from optim.passes import Stage

pytestmark = pytest.mark.slow

WASTE = {"a": 6, "b": 6, "c": 6}
QUICK = {"search_seconds": 80.0, "most_samples": 4}

RUN = """
import sys
from pathlib import Path
from optim._engine.plugins.registry import load_registry
from optim.passes import Stage
from optim._engine.runs.execute import execute
from optim._engine.search.settings import Named, RunSettings
from optim._engine.search.lane_costs import LaneCosts
from optim._engine.store import Store
LaneCosts.pace, LaneCosts.programs = 0.05, False
outcome = execute(eval(sys.argv[1]), load_registry(), Store(), lambda text: print("said", text, flush=True))
print("files", sum(name.startswith("optim.") and not hasattr(one, "__path__") for name, one in sys.modules.items()))
print("digest", outcome.result.candidate.model.digest)
"""
MOST_FILES = 260
"""Most files of core that a run imports without writing its folder. A reader of a run may have to open each."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("search")
    with installed(folder, "timed_plugin"):
        write_network(folder / "model.onnx", WASTE)
        yield folder


@pytest.fixture(scope="module")
def ours(folder):
    """Names of all other passes, to be left out: only what is clear by a factor is tried here."""
    registry = load_registry()
    names = {offered.name for offered in registry.offers(registry.target("cpu"))}
    return tuple(sorted(name for name in names if not name.startswith("timed.")))


@pytest.fixture(scope="module")
def run(folder, ours, counted_clock):
    def make(model="model.onnx", say=lambda text: None, *, processes=False, **changes):
        settings = RunSettings(**{"source": folder / model, "without": ours, **QUICK, **changes})
        with nullcontext() if processes else done_here():
            return execute(settings, load_registry(), Store(), say)

    return make


@pytest.fixture(scope="module")
def whole_and_graphs(run):
    """The default search, each job in a process of its own; graphs that the store had before, and that it has then."""
    graphs = Store().models.glob
    before = set(graphs("*.onnx"))
    return run(processes=True), before, set(graphs("*.onnx"))


@pytest.fixture(scope="module")
def whole(whole_and_graphs):
    return whole_and_graphs[0]


def rows(outcome, name):
    return [one for one in outcome.attempts if one.step.pass_name == f"timed.{name}"]


def kept(outcome):
    return [step.pass_name.removeprefix("timed.") for step in outcome.result.candidate.steps]


def chain_of(outcome):
    return tuple(Named(step.pass_name, step.options) for step in outcome.result.candidate.steps)


def drift_of(outcome):
    """What onnxruntime itself says of the result, on the first sample of the run."""
    references = Store().root / "references"
    feeds = FeedSet.open(next(references.glob("*/*/feeds")))
    sample, models = feeds.sample(0), (outcome.source.model, outcome.result.candidate.model)
    found = []
    for model in models:
        session = open_session(model.path, model.session)
        found.append(dict(zip([o.name for o in session.get_outputs()], session.run(None, sample), strict=True)))
    return worst_drift(compare_sample(*found, sample, models[0])).relative_error


# The default search.


def test_what_makes_it_faster_is_kept(whole):
    assert whole.status is RunStatus.IMPROVED
    assert {"drop-a", "drop-b", "round"} <= set(kept(whole))
    assert whole.result.ratio == pytest.approx(whole.timing.ratio.value)


def test_the_result_really_computes_the_same_within_the_budget(whole):
    assert 0.001 < whole.result.candidate.drift.relative_error < 0.05
    assert drift_of(whole) == pytest.approx(whole.result.candidate.drift.relative_error, rel=0.3)


def test_stages_are_tried_in_their_order(whole):
    order = [list(Stage).index(one.step.stage) for one in whole.attempts if one.status is not StepStatus.SKIPPED]
    first_seen = list(dict.fromkeys(order))
    assert first_seen == sorted(first_seen)
    for one in whole.attempts:
        assert all(name.startswith("timed.") for name in one.on)


def test_every_row_of_the_report_has_a_reason_and_the_kept_ones_are_the_chain(whole):
    assert all(one.reason for one in whole.attempts)
    found = [one for one in whole.attempts if one.status is StepStatus.KEPT]
    assert sorted(one.step.pass_name.removeprefix("timed.") for one in found) == sorted(kept(whole))
    for one in found:
        if one.step.role == "improve" and one.parent_ratio is not None:
            assert one.reason.startswith(f"latency ratio {one.ratio:.2f}, {one.parent_ratio:.2f} without it")


def test_an_enabling_pass_is_kept_with_what_needs_it(whole):
    assert kept(whole).index("make-way") < kept(whole).index("drop-b")
    row = next(one for one in rows(whole, "make-way") if one.status is StepStatus.KEPT)
    assert row.reason == "later passes need it"


def test_an_enabling_pass_that_nothing_needs_is_taken_out(whole):
    assert "pointless" not in kept(whole)
    assert {one.status for one in rows(whole, "pointless")} == {StepStatus.DROPPED}


def test_what_needs_another_pass_says_so_where_that_is_left_out(whole):
    alone = [one for one in rows(whole, "drop-b") if "timed.make-way" not in one.on]
    assert alone
    assert {one.status for one in alone} <= {StepStatus.NOT_APPLICABLE, StepStatus.SKIPPED}
    assert (StepStatus.NOT_APPLICABLE, "there is no way") in {(one.status, one.reason) for one in alone}


def test_alternatives_never_stand_in_one_chain(whole):
    for one in whole.attempts:
        assert not {"timed.round", "timed.round-heavily"} <= {*one.on, one.step.pass_name}
    heavy = rows(whole, "round-heavily")
    assert {one.status for one in heavy} <= {StepStatus.DROPPED, StepStatus.SKIPPED}
    assert "beyond the budget (0.1)" in heavy[0].reason


def test_options_that_were_hopeless_on_one_chain_are_not_tried_on_the_next(whole):
    skipped = [one for one in rows(whole, "round-heavily") if one.status is StepStatus.SKIPPED]
    assert skipped
    assert {one.reason[:23] for one in skipped} == {"on another chain: drift"}


def test_a_requested_pass_does_not_run_unasked(whole):
    (row,) = rows(whole, "rename")
    assert (row.status, row.reason) == (StepStatus.SKIPPED, "it only runs if --with names it")


def proven(outcome):
    return {point.candidate.model.path for point in outcome.points if point.proven}


def test_dropped_models_are_deleted_from_the_store_and_proven_points_are_not(whole_and_graphs):
    whole, before, graphs = whole_and_graphs
    wanted = {whole.source.model.path, *proven(whole)}
    assert wanted <= graphs <= wanted | before
    assert whole.result.candidate.model.path in graphs
    assert list(Store().root.glob("scratch-*")) == []


def test_points_are_what_was_measured_and_the_front_is_numbered(whole):
    numbers = [point.number for point in whole.points if point.number]
    assert numbers == list(range(1, len(numbers) + 1))
    ratios = [point.ratio for point in whole.points if point.number]
    assert ratios == sorted(ratios)
    delivered = next(point for point in whole.points if point.candidate.model == whole.result.candidate.model)
    assert delivered.number
    assert delivered.proven
    assert any(not point.proven for point in whole.points)
    assert any(not point.candidate.is_lossy for point in whole.points if point.proven)
    assert whole.nearest is None


def test_another_point_is_delivered_without_running_anything(whole, folder, tmp_path):
    from optim._engine.runs.pick import pick_from
    from optim._engine.runs.run import ToDeliver, run_settings

    settings = whole.settings
    first = run_settings(settings, tmp_path / "out", lambda text: None)
    assert first.cached
    jobs = []
    other = pick_from(tmp_path / "out", "most-accurate", tmp_path / "other", jobs.append)
    assert jobs == ["writing the result"]
    assert other.result.drift.relative_error < 1e-4
    assert first.result.drift.relative_error > 1e-3
    kept_rows = [step.pass_name for step in other.steps if step.status == "kept"]
    assert kept_rows
    assert "timed.round" not in kept_rows
    chosen = next(point for point in other.points if point.delivered)
    assert kept_rows == [step.partition(" (")[0] for step in chosen.chain]  # and no step that its chain has not
    last = [step for step in other.steps if step.status == "kept"][-1]
    assert last.ratio_to_original == other.result.latency_ratio == chosen.latency_ratio
    assert last.reason.endswith(f"part of result {chosen.number}, which was picked")
    goals = [step.reason for step in other.steps if step.reason.startswith("part of the best result")]
    assert goals and all(f"ratio {first.result.latency_ratio:.2f}; result {chosen.number} was" in one for one in goals)
    assert (other.seconds, other.first_seconds) == (0.0, whole.seconds)
    session = open_session(tmp_path / "other" / "model.onnx", SessionConfig())
    x = np.ones([6, 96], np.float32)
    expected = open_session(folder / "model.onnx", SessionConfig()).run(None, {"x": x})[0]
    np.testing.assert_allclose(session.run(None, {"x": x})[0], expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(OptimError, match="unknown-point"):
        pick_from(tmp_path / "out", "99", tmp_path / "other", jobs.append)
    again = run_settings(settings, tmp_path / "out", lambda text: None, ToDeliver(pick="smallest"))
    assert again.result.size_bytes == min(point.size_bytes for point in again.points if point.number)
    said = json.loads((tmp_path / "out" / "report.json").read_text())
    for status, cause in (("improved", "the cache was pruned"), ("failed", "does not keep a failed run")):
        (tmp_path / "out" / "report.json").write_text(json.dumps({**said, "key": "nobody's", "status": status}))
        with pytest.raises(OptimError, match="points-gone") as caught:
            pick_from(tmp_path / "out", "1", tmp_path / "other", jobs.append)
        assert cause in caught.value.cause


def test_another_point_is_laid_out_as_it_is_picked_with_the_files_that_the_run_folder_keeps(whole, tmp_path):
    from optim._engine.runs.delivering import LayoutRequest
    from optim._engine.runs.pick import pick_from
    from optim._engine.runs.run import run_settings

    run_settings(whole.settings, tmp_path / "out", lambda text: None)
    (tmp_path / "out" / "config.json").write_text('{"model_type": "bert"}')
    asked = LayoutRequest(("onnxruntime", "optimum"))
    picked = pick_from(tmp_path / "out", "most-accurate", tmp_path / "other", lambda text: None, asked)
    opened, written = picked.layouts
    assert (opened.status, opened.folder) == ("opened", "onnxruntime"), opened.text
    assert opened.drift <= opened.tolerance
    assert (tmp_path / "other" / "onnxruntime" / "model.ort").is_file()
    assert (written.status, written.graph) == ("not-opened", "onnx/model_optim.onnx")  # no optimum is installed here
    for place in ("", "optimum"):
        assert (tmp_path / "other" / place / "config.json").read_text() == '{"model_type": "bert"}'
    assert (tmp_path / "other" / "optimum" / "onnx" / "model_optim.onnx").is_file()


def test_the_outcome_says_what_it_was_made_with(whole):
    assert set(whole.versions) >= {"optim-core", "onnx", "numpy", "onnxruntime", "optim-test-timed"}
    assert whole.packages["timed"] == ("optim-test-timed", "1.0")
    assert whole.operators["MatMul"] == 2
    assert min(whole.original.latency_ms, whole.result.lane.latency_ms) > 0
    assert whole.original.ready.peak_memory_bytes > 0
    assert whole.seconds > whole.search_s > 0


# The cache.


def test_the_same_run_again_computes_nothing_and_says_so(run, whole):
    said = []
    again = run(say=said.append)
    assert (again.first_s, again.computed) == (whole.seconds, 0)
    assert any("read from the cache" in text for text in said)
    assert again.result.candidate.model == whole.result.candidate.model
    assert again.attempts == whole.attempts


def test_fresh_takes_nothing_from_the_cache(run, whole, ours):
    fresh = run(fresh=True, stages=(Stage.FUSE,), without=(*ours, "timed.pointless"))
    assert (fresh.first_s, fresh.from_cache) == (None, 0)
    assert fresh.computed > 3
    assert "drop-a" in kept(fresh)


def test_another_request_takes_from_the_cache_what_is_the_same(run, whole):
    found = run(lossless=True, stages=(Stage.FUSE,))
    assert found.first_s is None
    assert found.from_cache > 0
    assert "drop-a" in kept(found)
    assert found.result.candidate.drift.relative_error < 1e-5


def test_a_chain_repeated_elsewhere_gives_the_same_digest(folder, whole, tmp_path, ours):
    """Another cache, another process, another hash seed, another seed of the run."""
    settings = f"RunSettings(Path({str(folder / 'model.onnx')!r}), chain={chain_of(whole)!r}, seed=7, most_samples=2)"
    done = subprocess.run(
        [sys.executable, "-c", RUN, settings],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONHASHSEED": "99", "OPTIM_CACHE_DIR": str(tmp_path)},
    )
    *_, files, digest = done.stdout.splitlines()
    assert digest == f"digest {whole.result.candidate.model.digest}"
    assert "stage" not in done.stdout
    assert int(files.removeprefix("files ")) <= MOST_FILES


def test_a_run_that_was_killed_goes_on_where_it_was(folder, run, tmp_path, monkeypatch, ours):
    """kill -9 in the middle; the same command then finds what was finished, and leaves nothing behind."""
    monkeypatch.setenv("OPTIM_CACHE_DIR", str(tmp_path))
    settings = f"RunSettings(Path({str(folder / 'model.onnx')!r}), without={ours!r}, stages=(Stage.FUSE,), **{QUICK!r})"
    with subprocess.Popen(
        [sys.executable, "-c", RUN, settings], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        assert any(line.startswith("said trying timed.make-way") for line in process.stdout)
        process.send_signal(signal.SIGKILL)
        process.wait()
    finished = len(list((tmp_path / "steps").iterdir()))
    assert finished >= 3
    assert list((tmp_path / "runs").iterdir()) == []
    found = run(stages=(Stage.FUSE,))
    assert found.status is RunStatus.IMPROVED
    assert found.first_s is None
    assert found.from_cache >= 3
    assert "drop-a" in kept(found)
    graphs = set(Store().models.glob("*.onnx"))
    assert graphs == {found.source.model.path, *proven(found)}
    assert list(tmp_path.rglob("*.tmp")) == []
    assert list(tmp_path.glob("scratch-*")) == []


# What the user asks for.


def test_named_passes_run_with_their_options_and_the_interface_leads_back(run, whole):
    named = (Named("timed.round", {"strength": 0.001}), Named("timed.rename"))
    found = run(named=named, stages=(Stage.QUANTIZE,))
    assert found.status is RunStatus.IMPROVED
    assert chain_of(found)[0] == named[0]
    assert kept(found)[-1] == "rename"
    assert [info.name for info in found.result.candidate.model.outputs] == ["result"]
    assert 0 < found.result.candidate.drift.relative_error < 0.005
    assert [step.pass_name for step in found.result.candidate.steps if step.stage is Stage.FUSE] == []


def test_a_named_pass_beyond_the_budget_misses_it(run, whole):
    found = run(named=(Named("timed.round", {"strength": 0.5}),), stages=(Stage.QUANTIZE,))
    assert found.status is RunStatus.BUDGET_MISSED
    assert "timed.round was asked for, but it failed: drift" in found.reason
    assert found.result is None
    assert [step.pass_name for step in found.nearest.candidate.steps] == ["timed.round"]
    assert found.nearest.candidate.drift.relative_error > 0.05
    assert found.nearest.ratio is not None
    assert found.nearest.candidate.model.path.is_file()


def test_a_budget_that_nothing_meets_is_missed_and_the_nearest_named(run, whole, ours):
    missed = run(max_drift=1e-4, stages=(Stage.QUANTIZE,), without=(*ours, "timed.drop-b"))
    assert missed.status is RunStatus.BUDGET_MISSED
    assert "no candidate that is better meets the budget of a drift of 0.0001" in missed.reason
    assert missed.nearest.candidate.steps[0].options == {"strength": 0.02}


def test_a_named_pass_that_is_not_applicable_fails_with_its_reason(run, folder):
    write_network(folder / "bare.onnx")
    found = run("bare.onnx", named=(Named("timed.drop-a"),))
    assert found.status is RunStatus.FAILED
    assert found.reason == "timed.drop-a was asked for, but it failed: there is no group a"


def test_where_nothing_helps_the_result_is_the_original(run, folder):
    write_network(folder / "bare.onnx")
    found = run("bare.onnx")
    assert found.status is RunStatus.UNCHANGED
    assert found.result.candidate.model == found.source.model
    assert found.result.candidate.steps == ()
    assert found.result.ratio == 1.0
    assert found.timing == found.original is not None  # no second lane, whose figures would differ by noise
    assert {one.status for one in rows(found, "drop-a")} == {StepStatus.NOT_APPLICABLE}
    assert {one.status for one in rows(found, "make-way")} == {StepStatus.DROPPED}


def test_the_goal_size_takes_what_is_smallest(run, whole):
    found = run(goal="size")
    assert found.status is RunStatus.IMPROVED
    assert {"drop-a", "drop-b", "round"} <= set(kept(found))
    assert found.result.candidate.size_bytes < 0.2 * found.source.size_bytes
    assert found.result.candidate.size_bytes <= whole.result.candidate.size_bytes


def test_the_goal_memory_takes_what_needs_least(run, folder):
    write_network(folder / "wide.onnx", {"a": 250})
    found = run("wide.onnx", goal="memory", stages=(Stage.FUSE,), processes=True)
    assert found.status is RunStatus.IMPROVED
    assert kept(found) == ["drop-a"]
    assert found.result.peak_memory_bytes < 0.98 * found.original.ready.peak_memory_bytes


@pytest.mark.parametrize("training", [False, True])
def test_a_model_that_does_not_repeat_itself_is_one_clear_error(run, folder, training):
    model = onnx.load(folder / "model.onnx")
    end = next(node for node in model.graph.node if node.name == "y_end")
    if training:
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.array(True), "training"))
        end.CopyFrom(onnx.helper.make_node("Dropout", [end.input[0], "", "training"], ["y"], "y_end"))
    else:
        noise = onnx.helper.make_node("RandomNormalLike", ["x"], ["noise"], "noise")
        added = onnx.helper.make_node("Add", [end.input[0], "noise"], ["noisy"], "noisy_add")
        model.graph.node.insert(len(model.graph.node) - 1, noise)
        model.graph.node.insert(len(model.graph.node) - 1, added)
        end.input[0] = "noisy"
    onnx.save(model, folder / "random.onnx")
    with pytest.raises(OptimError) as caught:
        run("random.onnx")
    assert caught.value.reference == "not-reproducible"
    assert ("eval mode" in caught.value.fix) == ("Dropout 'y_end'" in caught.value.cause) == training


class Heard:
    """Somebody who waits and is told how the search stands."""

    def __init__(self):
        self.standings = []

    def __call__(self, text):
        pass

    def hear(self, standing):
        self.standings.append(standing)


def test_who_waits_is_told_stage_candidates_the_best_and_the_time_left(run):
    heard = Heard()
    run(say=heard, stages=(Stage.FUSE,), fresh=True)
    assert heard.standings[0].stage == "fuse"
    assert 0 < heard.standings[0].seconds_left() <= QUICK["search_seconds"]
    most = max(heard.standings, key=lambda standing: standing.tried)
    assert most.of >= most.tried > 0
    last = heard.standings[-1]
    assert last.stage == ""
    assert last.best_ratio < 1
