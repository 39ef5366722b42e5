"""Several targets in one run, by a clock that counts: who is searched, who wins, and what is said of the others."""

from __future__ import annotations

import io
from dataclasses import replace

import jobs_here
import pytest
from installed_plugin import installed
from rich.console import Console
from timed_models import write_network

import optim
from optim._engine.goals.bounds import Bound
from optim._engine.jobs.job import Job
from optim._engine.plugins.chosen_targets import ChosenTargets
from optim._engine.plugins.registry import load_registry
from optim._engine.reports.build import build_report
from optim._engine.reports.outcome import RunStatus
from optim._engine.reports.renderer import print_report
from optim._engine.runs.execute import execute
from optim._engine.runs.folder import RunFolder
from optim._engine.runs.locking import lock_of
from optim._engine.runs.pick import pick_from, picked
from optim._engine.runs.publish import publish, write_run
from optim._engine.runs.session_trust import read_session_file
from optim._engine.search.deadline import Deadline
from optim._engine.search.explore.beam import Beam
from optim._engine.search.explore.first_looks import FirstLooks
from optim._engine.search.rows import OUT_OF_TIME
from optim._engine.search.select.selection import Selection
from optim._engine.search.settings import Named, RunSettings
from optim._engine.search.targets.entrants import TargetOutcome, TargetStatus, with_absent
from optim._engine.search.workbench import Workbench
from optim._engine.store import Store
from optim.cli_kit import NOTHING
from optim.errors import OptimError
from optim.target import Target
from optim_plugins.report.page import render_html

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("jobs_here", "counted_clock")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("contest")
    with installed(folder, "timed_plugin", "rivals_plugin"):
        write_network(folder / "model.onnx", {"a": 6, "b": 6, "c": 6})
        yield folder


@pytest.fixture(scope="module")
def run(folder):
    """Runs with the passes of ``timed_plugin``; what was said is kept beside the outcome."""
    registry = load_registry()
    names = {offered.name for offered in registry.offers(registry.target("cpu"))}
    left_out = tuple(sorted(name for name in names if not name.startswith("timed.")))

    def make(target, **changes):
        asked = {"search_seconds": 60.0, "most_samples": 4, "without": left_out, **changes}
        settings, said = RunSettings(folder / "model.onnx", target=target, **asked), []
        return execute(settings, load_registry(), Store(), said.append), said

    return make


@pytest.fixture(scope="module")
def swift_wins(run):
    return run("cpu,swift,sluggish,away")


def rows(outcome):
    return {row.name: row for row in outcome.targets}


def _start_of(job, here):
    """A crash is one of a process of its own."""
    return jobs_here._start if job.module.endswith(".arrival") else here


def passes(candidate):
    return [step.pass_name for step in candidate.steps]


def test_the_fastest_target_is_delivered_and_its_ratio_is_to_the_baseline(swift_wins):
    outcome, _ = swift_wins
    assert outcome.status is RunStatus.IMPROVED
    assert (outcome.target.name, outcome.baseline) == ("swift", "cpu")
    assert passes(outcome.result.candidate) == ["timed.drop-a", "timed.make-way", "timed.drop-b", "timed.round"]
    assert outcome.result.ratio == pytest.approx(0.05, rel=0.02)  # a tenth of the products, in half of the time
    assert outcome.versions["rival-runtime"] == "4.2"


def test_each_target_has_its_default_timed_first_and_those_behind_have_first_looks_alone(swift_wins):
    outcome, said = swift_wins
    found = rows(outcome)
    assert [found[name].ratio for name in ("cpu", "swift", "sluggish")] == pytest.approx([1.0, 0.5, 3.0])
    assert [found[name].status for name in ("cpu", "swift", "sluggish", "away")] == [
        TargetStatus.BEATEN,
        TargetStatus.DELIVERED,
        TargetStatus.BEATEN,
        TargetStatus.ABSENT,
    ]
    assert "so swift went on" in found["cpu"].reason
    assert found["away"].reason == "there is no such device"
    assert found["cpu"].best_ratio == pytest.approx(0.4, rel=0.01)
    assert {"cpu: first looks", "sluggish: first looks", "swift: stage fuse"} <= set(said)
    assert "cpu: stage fuse" not in said
    assert "sluggish: stage fuse" not in said


def test_rows_and_points_say_for_which_target_they_are(swift_wins):
    outcome, _ = swift_wins
    assert {attempt.target for attempt in outcome.attempts} == {"", "swift", "sluggish"}  # empty: the baseline
    kept = [attempt for attempt in outcome.attempts if attempt.status == "kept"]
    assert {attempt.target for attempt in kept} == {"swift"}
    assert len(kept) == len(outcome.result.candidate.steps)
    numbered = [point for point in outcome.points if point.number]
    assert {point.candidate.target for point in numbered} == {"swift"}
    assert {point.candidate.target for point in outcome.points} == {"", "swift", "sluggish"}


def test_a_lock_names_the_target_and_its_baseline_and_repeats_to_the_same_figures(swift_wins, run):
    outcome, _ = swift_wins
    lock = lock_of(outcome)
    assert (lock.target.name, lock.target.baseline) == ("swift", "cpu")
    again, _ = run("swift", baseline="cpu", chain=lock.chain(), without=())
    assert (again.target.name, again.baseline) == ("swift", "cpu")
    assert again.result.candidate.model.digest == lock.result.model_digest
    assert again.result.ratio == pytest.approx(outcome.result.ratio, rel=0.02)


def test_a_target_that_fails_or_crashes_is_a_row_and_the_others_go_on(run, monkeypatch):
    here = Job.start
    monkeypatch.setattr(Job, "start", lambda job, *args, **kwargs: _start_of(job, here)(job, *args, **kwargs))
    outcome, _ = run("lacking,crashing,cpu,swift", stages=("fuse",))
    found = rows(outcome)
    assert outcome.target.name == "swift"
    assert {found["lacking"].status, found["crashing"].status} == {TargetStatus.FAILED}
    assert "it has no MatMul" in found["lacking"].reason
    assert "exit" in found["crashing"].reason
    assert found["cpu"].is_baseline


def test_the_original_on_another_target_is_a_result_of_its_own(run):
    outcome, _ = run("cpu,swift", lossless=True, without=("timed.drop-a", "timed.drop-b", "timed.make-way"))
    assert outcome.status is RunStatus.IMPROVED
    assert (outcome.target.name, passes(outcome.result.candidate)) == ("swift", [])
    assert outcome.result.ratio == pytest.approx(0.5)


def test_without_time_to_look_what_the_original_promises_somewhere_is_proven(run, monkeypatch):
    monkeypatch.setattr(Deadline, "is_up", property(lambda time: True))
    outcome, _ = run("cpu,sluggish,swift", fresh=True)
    assert outcome.status is RunStatus.IMPROVED
    assert (outcome.target.name, passes(outcome.result.candidate)) == ("swift", [])
    assert rows(outcome)["sluggish"].reason.startswith("the run ended before")
    tried = [one for one in outcome.attempts if one.step.pass_name.startswith("timed.")]
    assert {one.reason for one in tried} == {OUT_OF_TIME, "it only runs if --with names it"}


def test_what_there_was_no_time_to_time_goes_by_what_it_promises_also_where_the_original_is_fast(run, monkeypatch):
    """It was taken for as slow as the baseline, and so for slower than the original there."""
    decided = []
    decide = Selection.decide

    def spied(selection, ranking):
        decided.append([passes(item.candidate) for item in ranking])
        return decide(selection, ranking)

    monkeypatch.setattr(Selection, "decide", spied)
    monkeypatch.setattr(FirstLooks, "_race", lambda *_: {})
    monkeypatch.setattr(Beam, "_is_over", lambda beam, passes: True)
    outcome, _ = run("cpu,swift", fresh=True)
    assert outcome.target.name == "swift"
    assert decided[0][0] and decided[0][-1] == [], "a chain of which much is hoped before the original there"


def test_without_time_to_look_what_was_named_is_done_all_the_same(run, monkeypatch):
    monkeypatch.setattr(Deadline, "is_up", property(lambda time: True))
    outcome, _ = run("cpu,swift", named=(Named("timed.drop-a"),), stages=("fuse",), fresh=True)
    assert "timed.drop-a" in passes(outcome.result.candidate)


def test_what_drifts_beyond_rounding_there_is_not_delivered_without_a_lossy_pass(run):
    outcome, _ = run("cpu,off", lossless=True, stages=("fuse",))
    found = rows(outcome)
    assert "beyond what rounding explains" in found["off"].reason
    assert outcome.target.name == "cpu"
    assert all(point.candidate.target == "" for point in outcome.points if point.number)


def test_another_point_takes_its_target_with_it(swift_wins):
    outcome, _ = swift_wins
    lossless = picked(replace(outcome, target=outcome.targets[0].target), "most-accurate", load_registry())
    assert lossless.target.name == "swift"
    assert lossless.result.candidate.target == "swift"


def test_the_same_run_again_is_served_from_the_cache(swift_wins, run):
    again, _ = run("cpu,swift,sluggish,away")
    assert again.first_s is not None
    assert rows(again)["swift"].target.name == "swift"


def test_the_report_has_a_table_of_targets_and_a_column_for_them(swift_wins):
    outcome, _ = swift_wins
    report = build_report(outcome)
    assert (report.target, report.baseline) == ("swift", "cpu")
    assert {point.target for point in report.points} == {"cpu", "swift", "sluggish"}
    assert "on swift, against the original on cpu" in report.reason
    console = Console(file=io.StringIO(), width=200)
    print_report(report, console)
    lines = [line.strip() for line in console.file.getvalue().splitlines()]
    table = lines.index("ratios are to the original on cpu; columns original and drift: each target with its defaults:")
    assert lines[table + 1] == "target\truntime\toriginal\tdrift\tbest\tresult"
    cells = {line.split("\t")[0]: line.split("\t")[1:] for line in lines[table + 2 : table + 6]}
    assert cells["swift"][:4] == ["rival-runtime 4.2", "0.50", "0", "0.05"]
    assert cells["sluggish"][4].startswith("beaten: after its first candidates optim expected")
    assert cells["away"] == [NOTHING] * 4 + ["absent: there is no such device"]
    assert any(line.startswith("kept\tswift: timed.drop-a") for line in lines)
    assert any(line.startswith("1\tswift\t0.05") for line in lines)
    page = render_html(report)
    assert "<h2>Targets</h2>" in page
    assert "absent: there is no such device" in page


def test_one_model_is_timed_on_several_targets_in_one_table(folder):
    found = optim.bench(folder / "model.onnx", target=["swift", "sluggish", "lacking", "away"], seconds=0.1)
    rows = {timed.target: timed for timed in found.models}
    assert rows["sluggish"].latency_ratio == pytest.approx(6.0)
    assert rows["swift"].latency_ratio == 1.0
    assert "lacking cannot run model.onnx: it has no MatMul" in rows["lacking"].error
    assert rows["away"].error == "there is no such device"
    assert [name for name, timed in rows.items() if timed.not_here] == ["away"]
    assert found.columns[0] == "target"
    assert {len(row) for row in found.rows()} == {len(found.columns)}


def test_the_first_target_that_runs_the_model_is_what_others_are_compared_with(folder):
    found = optim.bench(folder / "model.onnx", target="lacking,swift,cpu", seconds=0.1)
    assert [(timed.target, timed.latency_ratio) for timed in found.models[:1]] == [("swift", 1.0)]
    assert found.models[1].latency_ratio == pytest.approx(2.0)
    with pytest.raises(OptimError, match="on none of the targets") as raised:
        optim.bench(folder / "model.onnx", target="lacking,away")
    assert "lacking: " in raised.value.cause
    assert "away: there is no such device" in raised.value.cause
    with pytest.raises(OptimError, match="several targets"):
        optim.bench([folder / "model.onnx"] * 2, target="cpu,swift")


def test_the_folder_of_the_winner_opens_with_its_runtime_and_is_timed_there(swift_wins, folder, tmp_path):
    outcome, _ = swift_wins
    write_run(outcome, load_registry(), tmp_path)
    assert read_session_file(tmp_path).target == "swift"
    session = optim.load(tmp_path)
    assert [one.name for one in session.get_outputs()] == ["y"]
    found = optim.bench([folder / "model.onnx", tmp_path], seconds=0.1)
    assert found.models[1].latency_ratio == pytest.approx(0.05, rel=0.02)
    assert optim.verify(folder / "model.onnx", tmp_path).within


def test_what_is_as_small_is_delivered_where_it_is_faster(run):
    outcome, _ = run("cpu,swift", goal="size", stages=("fuse",))
    found = rows(outcome)
    assert outcome.result.candidate.size_bytes < outcome.source.size_bytes
    assert outcome.target.name == "swift"
    assert found["cpu"].status is TargetStatus.BEATEN


def test_where_no_target_is_better_the_original_on_the_baseline_is_the_result(run):
    outcome, _ = run("sluggish,off", lossless=True, without=(), stages=("tune",))
    found = rows(outcome)
    assert outcome.status is RunStatus.UNCHANGED
    assert outcome.target.name == "cpu"
    assert found["cpu"].is_baseline
    assert "it is only the baseline" in found["cpu"].reason
    assert found["sluggish"].best_ratio == pytest.approx(3.0)
    assert found["off"].best_ratio is None  # fast, and not right


def test_a_pass_that_was_named_must_hold_on_the_target_that_is_delivered(run):
    outcome, _ = run("cpu,swift", named=(Named("timed.round-heavily"),), stages=("quantize",))
    assert outcome.status is RunStatus.FAILED
    assert {row.status for row in outcome.targets} == {TargetStatus.FAILED}
    assert outcome.reason.count("beyond the budget") == 2


def test_where_the_baseline_does_not_run_the_first_target_that_does_is_it(run, monkeypatch):
    prepare = Workbench.prepare

    def without_cpu(bench, *args):
        if bench.target.name == "cpu":
            raise OptimError("session-failed", "the original does not run on cpu", "it has no kernel", "another target")
        return prepare(bench, *args)

    monkeypatch.setattr(Workbench, "prepare", without_cpu)
    outcome, _ = run("cpu,swift,sluggish", stages=("tune",), lossless=True)
    found = rows(outcome)
    assert (outcome.baseline, outcome.target.name) == ("swift", "swift")
    assert found["cpu"].status is TargetStatus.FAILED
    assert "it has no kernel" in found["cpu"].reason
    assert found["sluggish"].ratio == pytest.approx(6.0)


def test_what_is_nearest_to_the_budget_is_kept_aside_for_its_target(run, tmp_path):
    outcome, _ = run("even,cpu", stages=("quantize",), max_drift=1e-5)
    assert outcome.status is RunStatus.BUDGET_MISSED
    assert outcome.nearest.candidate.target == "even"
    write_run(outcome, load_registry(), tmp_path)
    assert read_session_file(tmp_path / "nearest").target == "even"


def test_a_baseline_that_was_refused_has_one_row_with_the_reason():
    target = Target("cpu", "ort", "CPUExecutionProvider")
    chosen = ChosenTargets(target, (target,))
    refused = {"cpu": OptimError("unknown-pass", "pass a.b is not offered"), "x": OptimError("x", "it", "broke")}
    row = TargetOutcome("cpu", TargetStatus.BEATEN, "all are timed against it", target, is_baseline=True)
    found = with_absent([row], chosen, refused)
    assert [(one.name, one.status, one.reason) for one in found] == [
        ("cpu", TargetStatus.BEATEN, "pass a.b is not offered"),
        ("x", TargetStatus.FAILED, "it: broke"),
    ]


def test_any_point_of_the_front_is_delivered_for_its_own_target(swift_wins, tmp_path):
    outcome, _ = swift_wins
    front = {str(point.number): point.candidate.target for point in outcome.points if point.number}
    assert "swift" in front.values()
    with RunFolder.claim(tmp_path / "out") as claimed:
        publish(outcome, load_registry(), claimed, lambda text: None)
    for number, target in front.items():
        report = pick_from(tmp_path / "out", number, tmp_path / f"point{number}", lambda text: None)
        assert report.target == (target or "cpu")
        assert read_session_file(tmp_path / f"point{number}").target == target


def test_for_accuracy_the_original_is_measured_on_each_target(run):
    """Nothing is more accurate than the original; what it takes on each target is still told."""
    outcome, _ = run("cpu,swift", goal="accuracy", bounds=(Bound("size", 1e9),), search_seconds=10.0)
    found = rows(outcome)
    assert outcome.status is RunStatus.UNCHANGED
    assert (found["cpu"].status, found["swift"].ratio) == (TargetStatus.DELIVERED, pytest.approx(0.5))
    assert outcome.timing.ready is not None


def test_the_one_target_that_is_left_is_named_if_a_named_pass_fails_there(run):
    outcome, _ = run("cpu,lacking", named=(Named("timed.round"),), max_drift=1e-9, without=(), search_seconds=10.0)
    assert outcome.status is RunStatus.FAILED
    assert outcome.reason.startswith("cpu: timed.round ")
