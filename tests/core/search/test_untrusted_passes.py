"""A plugin may do anything: each pass ends with the right status and a readable reason, and costs only itself."""

from __future__ import annotations

import hashlib

import onnxruntime
import pytest
from installed_plugin import installed
from timed_models import network, write_network

from optim._engine.plugins.registry import load_registry
from optim._engine.reports.build import build_report
from optim._engine.reports.outcome import RunStatus, exit_status
from optim._engine.runs.execute import execute
from optim._engine.search.settings import Named, RunSettings
from optim._engine.search.state import StepStatus
from optim._engine.store import Store
from optim.errors import ExitStatus, OptimError

pytestmark = pytest.mark.slow

DROPPED, FAILED, NOT_APPLICABLE = StepStatus.DROPPED, StepStatus.FAILED, StepStatus.NOT_APPLICABLE
WASTE = {"a": 6, "b": 6}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("untrusted")
    with installed(folder, "untrusted_plugin"):
        write_network(folder / "model.onnx", WASTE, outputs=("y", "z"))
        yield folder


@pytest.fixture(scope="module")
def run(folder, counted_clock):
    registry = load_registry()
    ours = tuple(
        offered.name for offered in registry.offers(registry.target("cpu")) if offered.plugin.name != "untrusted"
    )

    def make(*named, options=None, **changes):
        settings = RunSettings(
            source=folder / "model.onnx",
            without=ours,
            timeout_s=8.0,
            max_drift=0.1,
            search_seconds=300.0,
            named=tuple(Named(f"untrusted.{name}", options) for name in named),
        )
        for name, value in changes.items():
            object.__setattr__(settings, name, value)
        return execute(settings, registry, Store(), lambda text: None)

    return make


@pytest.fixture(scope="module")
def outcome(run, capfd_module):
    """All passes in one run, and what it wrote to our own stdout."""
    found = run()
    found_stdout = capfd_module()
    return found, found_stdout


@pytest.fixture(scope="module")
def capfd_module():
    """What the run printed on descriptor 1, read by a fixture that lives as long as the module."""
    import os
    import tempfile

    with tempfile.TemporaryFile() as file:
        kept = os.dup(1)
        os.dup2(file.fileno(), 1)

        def stop():
            nonlocal kept
            if kept is not None:
                os.dup2(kept, 1)
                os.close(kept)
                kept = None
            file.seek(0)
            return file.read()

        yield stop
        stop()


def attempt(outcome, name):
    """What became of a pass on the original; settings are tried on the best chains, which may be others."""
    found = [one for one in outcome[0].attempts if one.step.pass_name == f"untrusted.{name}"]
    assert found, name
    return min(found, key=lambda one: (len(one.on), "the model is unchanged" in one.reason))


def test_the_run_succeeds_with_what_was_good(outcome):
    found, _ = outcome
    assert found.status is RunStatus.IMPROVED
    kept = [one.step.pass_name for one in found.attempts if one.status is StepStatus.KEPT]
    assert set(kept) <= {"untrusted.printing", "untrusted.right-interface"}
    assert kept
    assert found.result.ratio < 0.9
    assert found.result.candidate.drift.relative_error < 1e-5


def test_every_pass_has_a_row_with_a_reason(outcome):
    import untrusted_plugin

    rows = {one.step.pass_name for one in outcome[0].attempts}
    assert rows >= {offered.name for offered in (*untrusted_plugin.PASSES, *untrusted_plugin.TUNE)}
    assert all(one.reason for one in outcome[0].attempts)
    assert all("\n" not in one.reason for one in outcome[0].attempts)


@pytest.mark.parametrize("name", ["printing", "right-interface"])
def test_noise_and_another_interface_cost_nothing(outcome, name):
    found = attempt(outcome, name)
    assert found.status in (StepStatus.KEPT, DROPPED)
    assert found.ratio < 0.9
    assert found.drift.relative_error < 1e-5


def test_nothing_that_a_plugin_prints_lands_on_our_stdout(outcome):
    assert outcome[1] == b""


@pytest.mark.parametrize(
    ("name", "status", "says"),
    [
        ("raising", FAILED, "RuntimeError: no idea what to do (at untrusted_plugin.py:"),
        ("aborting", FAILED, "its process ended with SIGABRT"),
        ("littering", FAILED, "its process ended with SIGABRT"),
        ("exiting", FAILED, "SystemExit: 0"),
        ("leaving", FAILED, "its process ended with exit status 0"),
        ("hanging", FAILED, "did not finish within 8 s and was stopped while pass untrusted.hanging"),
        ("applicable-raising", FAILED, "KeyError: 'missing'"),
        ("applicable-aborting", FAILED, "its process ended with SIGABRT"),
        ("candidates-exiting", FAILED, "SystemExit: 0"),
        ("no-result", FAILED, "untrusted.no-result returned NoneType, not a PassResult"),
        ("odd-notes", FAILED, "untrusted.odd-notes returned a PassResult that does not fit: notes"),
        ("applicable-true", FAILED, "untrusted.applicable-true returned bool, not an Applicable"),
        ("odd-reason", FAILED, "untrusted.odd-reason returned an Applicable that does not fit: reason"),
        ("candidates-none", FAILED, "candidates of untrusted.candidates-none returned NoneType, not an iterable"),
        ("candidates-endless", FAILED, "candidates of untrusted.candidates-endless returned more than 1000"),
        ("saying-changed", NOT_APPLICABLE, "the model is unchanged"),
        ("forged-digest", NOT_APPLICABLE, "the model is unchanged"),
        ("elsewhere", FAILED, "untrusted.elsewhere returned a model outside the store"),
        ("invalid", FAILED, "untrusted.invalid made an invalid graph"),
        ("refused", FAILED, "NoSuchKernel"),
        ("mutating-graph", FAILED, "untrusted.mutating-graph changed its input model"),
        ("mutating-weights", FAILED, "untrusted.mutating-weights changed its input model"),
        ("mutating-and-raising", FAILED, "untrusted.mutating-and-raising changed its input model"),
        ("deleting-input", FAILED, "untrusted.deleting-input changed its input model"),
        ("zeroing-weight", DROPPED, "is beyond what rounding explains"),
        ("making-nan", DROPPED, "elements became NaN"),
        ("swapping-outputs", DROPPED, "is beyond what rounding explains"),
        ("wrong-interface", DROPPED, "is beyond what rounding explains"),
        ("forgotten-interface", FAILED, "the candidate has other outputs than the original"),
        ("missing-interface", FAILED, "no_such_function"),
        ("lossy", DROPPED, "is beyond the budget (0.1)"),
        ("slower", DROPPED, "no faster: latency ratio"),
        ("tune-changing-graph", FAILED, "untrusted.tune-changing-graph changed the graph"),
        ("tune-unknown-setting", DROPPED, "no attribute 'no_such_setting'"),
    ],
)
def test_each_pass_ends_with_its_own_status_and_reason(outcome, name, status, says):
    found = attempt(outcome, name)
    assert says in found.reason
    assert found.status is status


def test_passes_whose_own_code_broke_are_told_from_those_that_failed_otherwise(outcome):
    broke = {one.step.pass_name.partition(".")[2] for one in outcome[0].attempts if one.broke}
    in_apply = {"raising", "aborting", "littering", "exiting", "leaving"}
    assert broke == in_apply | {"applicable-raising", "applicable-aborting", "candidates-exiting"}


@pytest.mark.parametrize("name", ["zeroing-weight", "making-nan", "swapping-outputs"])
def test_what_is_wrong_carries_the_node_that_makes_it_so(outcome, name):
    """Three steps are looked into, those that claim to be exact first."""
    found = attempt(outcome, name)
    assert found.blame is not None
    first, near = found.blame.details["blamed"][0], found.blame.details["near"]
    assert first["nodes"][0] in {node["name"] for node in near["nodes"] if node["blamed"]}
    assert first["nodes"][0] in found.blame.summary
    assert found.why == f"{found.reason}; blamed: {found.blame.summary}"


def test_what_is_right_or_only_too_far_carries_no_blame(outcome):
    assert all(attempt(outcome, name).blame is None for name in ("slower", "lossy", "printing"))


def test_the_time_of_operators_is_known_of_the_original_and_of_the_result(outcome):
    before, after = outcome[0].operator_ms
    assert before["MatMul"] > 0 < after["MatMul"]
    assert list(before.values()) == sorted(before.values(), reverse=True)


def test_a_slower_graph_was_timed_and_is_slower(outcome):
    assert attempt(outcome, "slower").ratio > 1.2


def test_the_store_is_intact_afterwards(outcome):
    """Every file is what its name says, the original and what was proven run, and nothing is left half done."""
    found, store = outcome[0], Store()
    files = list(store.models.iterdir())
    assert {path.suffix for path in files} == {".onnx", ".data"}
    assert all(path.stem == hashlib.sha256(path.read_bytes()).hexdigest() for path in files)
    graphs = {path for path in files if path.suffix == ".onnx"}
    proven = {point.candidate.model.path for point in found.points if point.proven}
    assert found.result.candidate.model.path in proven
    assert graphs == {found.source.model.path, *proven}
    for path in graphs:
        onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    assert list(store.root.glob("scratch-*")) == []


def test_the_users_file_is_left_alone(outcome, folder):
    assert (folder / "model.onnx").read_bytes() == network(WASTE, outputs=("y", "z")).SerializeToString()


def test_where_nothing_helps_a_pass_that_broke_is_no_success_and_is_named_with_its_package(run, outcome):
    registry = load_registry()
    others = [one.name for one in registry.offers(registry.target("cpu")) if one.name != "untrusted.raising"]
    found = run(without=tuple(others))
    assert found.status is RunStatus.UNCHANGED
    report = build_report(found)
    assert exit_status(report) is ExitStatus.INTERNAL
    assert [(one.pass_name, one.distribution, one.version) for one in report.broken] == [
        ("untrusted.raising", *found.packages["untrusted"])
    ]
    assert report.broken[0].error.startswith("RuntimeError: no idea what to do (at untrusted_plugin.py:")
    assert "passes that failed: untrusted.raising" in report.reason


# Asked for by name.


def test_a_named_pass_that_raises_fails_the_run_with_its_reason(run, outcome):
    found = run("raising")
    assert found.status is RunStatus.FAILED
    assert "untrusted.raising was asked for, but it failed: RuntimeError: no idea what to do" in found.reason
    assert found.result is None


def test_a_run_that_failed_is_tried_again_and_one_that_missed_its_budget_is_remembered(run, outcome):
    for name, remembered in (("raising", False), ("lossy", True)):
        run(name)
        assert (run(name).first_s is not None) is remembered


def test_a_named_pass_beyond_the_budget_misses_it(run, outcome):
    found = run("lossy")
    assert found.status is RunStatus.BUDGET_MISSED
    assert "is beyond the budget (0.1)" in found.reason
    assert found.result is None


def test_a_full_disk_ends_the_run_instead_of_making_every_candidate_fail(run, outcome):
    with pytest.raises(OptimError, match="No space left") as caught:
        run("filling-the-disk")
    assert (caught.value.reference, caught.value.status) == ("disk-full", ExitStatus.USAGE)
    assert not any(Store().root.glob("active/*"))


def test_sizes_of_inputs_that_the_model_does_not_have_are_the_issue_of_the_plugin(run, outcome):
    with pytest.raises(OptimError, match=r"inputs_for of untrusted\.inventing-inputs") as caught:
        run("inventing-inputs", options={"size": 3})
    assert caught.value.reference == "bad-result"


def test_a_named_pass_that_damages_the_original_fails_the_run_and_the_original_is_whole_again(run, outcome):
    found = run("mutating-and-raising")
    assert found.status is RunStatus.FAILED
    assert all(path.stem == hashlib.sha256(path.read_bytes()).hexdigest() for path in Store().models.iterdir())
    assert outcome[0].source.model.path.is_file()


def test_a_source_that_changed_meanwhile_cannot_stand_in_for_a_damaged_original(run, outcome, folder):
    """One clear error, and nothing is made up."""
    registry = load_registry()
    source = folder / "moving.onnx"
    write_network(source, WASTE, outputs=("y", "z"), seed=5)

    def say(text):
        if "mutating-and-raising" in text:
            write_network(source, WASTE, outputs=("y", "z"), seed=6)

    settings = RunSettings(source=source, named=(Named("untrusted.mutating-and-raising"),))
    with pytest.raises(OptimError) as caught:
        execute(settings, registry, Store(), say)
    assert caught.value.reference == "store-damaged"
