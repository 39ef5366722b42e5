"""A device that takes one session at a time: it is taken in turns, what fails is named, and what was found is kept."""

from __future__ import annotations

import pytest
from device_plugin import FAIL_FROM, FOLDER
from installed_plugin import installed
from timed_models import write_network

from optim._engine.plugins.registry import load_registry
from optim._engine.reports.build import build_report
from optim._engine.reports.outcome import RunStatus
from optim._engine.runs.execute import execute
from optim._engine.search.settings import RunSettings
from optim._engine.search.state import StepStatus
from optim._engine.store import Store
from optim.errors import OptimError

pytestmark = [pytest.mark.usefixtures("jobs_here")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("device")
    with installed(folder, "device_plugin"):
        write_network(folder / "model.onnx", {"a": 40})
        yield folder


@pytest.fixture
def opened(tmp_path, monkeypatch):
    monkeypatch.setenv(FOLDER, str(tmp_path))
    return tmp_path / "opened"


@pytest.fixture
def run(folder, opened):
    def make(target):
        settings = RunSettings(folder / "model.onnx", target=target, most_samples=2, search_seconds=100.0, fresh=True)
        return execute(settings, load_registry(), Store(), lambda text: None)

    return make


@pytest.mark.slow
def test_lanes_open_and_close_in_turn(run, opened):
    outcome = run("one")
    assert outcome.status is RunStatus.IMPROVED
    assert [step.pass_name for step in outcome.result.candidate.steps] == ["device.drop-a"]
    assert outcome.result.ratio < 0.5
    (kept,) = [one for one in outcome.attempts if one.status is StepStatus.KEPT]
    assert kept.notes == ("info: left group a out",)
    assert opened.stat().st_size > 10, "a session for each lane and round"


@pytest.mark.slow
def test_an_exclusive_device_and_its_reference_are_not_open_at_the_same_time_in_a_run(run, opened):
    outcome = run("one-reference")
    assert outcome.status in (RunStatus.IMPROVED, RunStatus.UNCHANGED), "a second session is refused by the device"
    (tried,) = [one for one in outcome.attempts if one.step.pass_name == "device.drop-a"]
    assert tried.drift.relative_error == 0, "it was compared with the reference"
    assert opened.stat().st_size > 4


@pytest.mark.slow
def test_what_passes_is_tried_again(run):
    assert run("one-busy").status is RunStatus.IMPROVED


def test_a_device_that_fails_while_timing_is_named_and_what_was_found_is_kept(run, monkeypatch):
    monkeypatch.setenv(FAIL_FROM, "12")
    outcome = run("one-failing")
    assert outcome.status is RunStatus.FAILED
    assert "backend one-failing could not open" in outcome.reason
    assert "RuntimeError: ERR_DEVICE_LOST" in outcome.reason
    assert "optim-test-device 1.0" in outcome.reason
    (row,) = [one for one in outcome.attempts if one.step.pass_name == "device.drop-a"]
    assert row.status is StepStatus.SKIPPED
    assert row.reason == "nothing was decided, because the original stopped running"
    assert "ERR_DEVICE_LOST" in build_report(outcome).reason


def test_a_device_that_does_not_run_the_original_is_named(run, monkeypatch):
    monkeypatch.setenv(FAIL_FROM, "1")
    with pytest.raises(OptimError) as caught:
        run("one-failing")
    assert caught.value.reference == "backend-failed"
    assert caught.value.package == "optim-test-device 1.0"
    assert "ERR_DEVICE_LOST" in caught.value.cause
    assert "sample" not in caught.value.fix


def test_what_is_not_said_to_be_exclusive_fails_as_one_candidate_with_the_way_out(run):
    outcome = run("one-unsaid")
    said = outcome.reason + " ".join(one.reason for one in outcome.attempts)
    assert "DeviceBusyError" in said
    assert "exclusive" in said
