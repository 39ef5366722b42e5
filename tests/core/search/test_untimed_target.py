"""A target that cannot be timed: validity, drift, where nodes ran and size decide, and the report says so."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from installed_plugin import installed
from timed_models import write_network
from untimed_plugin import REMARK

from optim._engine.cli.main import main
from optim._engine.plugins.registry import load_registry
from optim._engine.reports.build import build_report
from optim._engine.reports.outcome import RunStatus
from optim._engine.runs.compare.bench import bench_models
from optim._engine.runs.compare.verify import verify_models
from optim._engine.runs.execute import execute
from optim._engine.search.settings import Named, RunSettings
from optim._engine.search.state import StepStatus
from optim._engine.store import Store
from optim.errors import ExitStatus, OptimError

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("jobs_here")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("untimed")
    with installed(folder, "untimed_plugin"):
        write_network(folder / "model.onnx", {"a": 4})
        yield folder


@pytest.fixture(scope="module")
def run(folder):
    def make(**changes):
        settings = RunSettings(folder / "model.onnx", target="simulated", most_samples=3)
        return execute(replace(settings, **changes), load_registry(), Store(), lambda text: None)

    return make


@pytest.fixture(scope="module")
def whole(run):
    return run(max_drift=0.1)


def kept(outcome):
    return [step.pass_name.removeprefix("untimed.") for step in outcome.result.candidate.steps]


def test_what_the_target_requires_runs_and_stays_though_nothing_needs_it(whole):
    assert whole.status is RunStatus.IMPROVED
    assert kept(whole) == ["prepare", "round", "seal"]


def test_the_report_has_where_nodes_ran_and_the_remark_and_no_latency(whole):
    report = build_report(whole)
    assert report.result.latency_ms is None
    assert report.result.latency_ratio is None
    assert report.result.executed_on == {"CPUExecutionProvider": 1.0}
    assert "100.0 % of its nodes on CPUExecutionProvider" in report.reason
    assert "smaller" in report.reason
    assert "within the budget of 0.1" in report.reason
    assert REMARK in report.notes


def test_the_first_guess_that_holds_is_enough_where_no_clock_says_more(whole):
    attempts = [one for one in whole.attempts if one.step.pass_name == "untimed.round"]
    statuses = {one.step.options["strength"]: one.status for one in attempts}
    assert statuses[10.0] is StepStatus.DROPPED
    assert statuses[0.01] is StepStatus.KEPT
    assert statuses[0.001] is StepStatus.SKIPPED


def test_what_only_prepares_is_delivered_where_nothing_lossy_holds(run):
    outcome = run(max_drift=1e-9)
    assert kept(outcome) == ["prepare", "seal"]


def test_what_a_target_requires_has_nothing_left_to_do_on_a_result(run):
    without_seal = {"max_drift": 0.1, "without": ("untimed.seal",)}
    without_seal["source"] = run(**without_seal).result.candidate.model.path
    nothing_left = run(**without_seal)
    assert nothing_left.status is RunStatus.UNCHANGED and nothing_left.result.candidate.is_original
    assert {one.step.pass_name: one.reason for one in nothing_left.attempts}["untimed.prepare"] == "it is prepared"
    assert kept(run(**{**without_seal, "without": ()})) == ["seal"]
    named = run(**without_seal, named=(Named("untimed.prepare"),))
    assert named.status is RunStatus.FAILED and "it is prepared" in named.reason


def test_what_a_target_requires_can_be_left_out_by_name(run):
    outcome = run(max_drift=0.1, without=("untimed.seal",))
    assert kept(outcome) == ["prepare", "round"]
    broken = run(max_drift=0.1, without=("untimed.prepare",))
    assert broken.status is not RunStatus.IMPROVED


def test_leaving_out_and_naming_the_same_pass_is_an_error(run):
    with pytest.raises(OptimError, match="was asked for by name, but left out"):
        run(named=(Named("untimed.seal"),), without=("untimed.seal",))


def test_a_chain_is_repeated_without_a_clock(run, whole):
    chain = tuple(Named(step.pass_name, step.options) for step in whole.result.candidate.steps)
    again = run(chain=chain, max_drift=0.1)
    assert again.result.candidate.model.digest == whole.result.candidate.model.digest


def test_verify_compares_and_bench_refuses(folder, whole):
    found = verify_models(
        folder / "model.onnx",
        whole.result.candidate.model.path,
        RunSettings(folder / "model.onnx", target="simulated", max_drift=0.2),
        lambda text: None,
    )
    assert found.within
    assert found.drift.relative_error > 1e-4
    with pytest.raises(OptimError) as caught:
        bench_models([folder / "model.onnx"], RunSettings(folder / "model.onnx", target="simulated"), print)
    assert caught.value.reference == "not-timed"
    assert caught.value.cause == REMARK
    assert caught.value.status is ExitStatus.USAGE


def test_settings_of_a_target_are_part_of_its_name(folder, capsys):
    target = load_registry().target("simulated:chip=nine")
    assert (target.name, target.device) == ("simulated:chip=nine", "simulator nine")
    for settings, says in (("", "key=value"), ("chip", "no setting"), ("core=1", "no setting")):
        with pytest.raises(OptimError, match=says):
            load_registry().target(f"simulated:{settings}")


def test_a_run_prints_what_the_steps_say_and_where_it_ran(folder, tmp_path, capfd):
    arguments = ["run", str(folder / "model.onnx"), "--target", "simulated:chip=nine", "--max-drift", "0.1"]
    assert main([*arguments, "-o", str(tmp_path / "out")]) == 0
    text = " ".join(capfd.readouterr().out.split())
    assert "note: untimed.prepare: prepared as the samples are" in text
    assert f"note: {REMARK}" in text
    assert "-> 100.0 % of its nodes on CPUExecutionProvider" in text
    assert "latency" not in text
    saved = json.loads((tmp_path / "out" / "report.json").read_text())
    assert saved["target"] == "simulated:chip=nine"
    assert "optim cannot time this target." in (tmp_path / "out" / "report.html").read_text()
