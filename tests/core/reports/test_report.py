from __future__ import annotations

import json
import math
import os
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import sample_outcome as sample
from boards import timed_at

from optim._engine import machine
from optim._engine.cli.verbs.run import _next_step
from optim._engine.feeds.feedset import SYNTHESIZED
from optim._engine.gate.drift import Drift
from optim._engine.goals.bounds import Bound
from optim._engine.machine import _from_cpuinfo, _instruction_sets, this_machine
from optim._engine.reports.build import build_report
from optim._engine.reports.outcome import RunStatus
from optim._engine.reports.schema import DriftReport, Report, SourceDriftReport
from optim._engine.reports.words import cores_text
from optim._engine.search.state import Candidate
from optim.goal import Basis
from optim_plugins.report.words import result_drift_text

STEP_FIELDS = {
    "stage",
    "pass",
    "plugin",
    "options",
    "on",
    "status",
    "reason",
    "ratio_to_original",
    "ratio_to_best",
    "ratio_ci",
    "size_bytes",
    "target",
    "task_value",
    "task_loss",
    "drift",
    "seconds",
    "counts",
    "notes",
    "not_here",
    "printed",
    "trace",
    "blame",
}


def strict_json(report: Report) -> dict:
    def refuse(text: str) -> None:
        raise AssertionError(f"{text} is no JSON")

    return json.loads(report.as_json(), parse_constant=refuse)


def test_the_report_has_the_figures_of_the_run():
    data = strict_json(build_report(sample.improved()))
    assert data["status"] == "improved"
    assert (data["target"], data["goal"]) == ("cpu", "latency")
    assert data["budget"] == {
        "max_drift": 0.17,
        "lossless": False,
        "metric": None,
        "max_loss": None,
        "max_mismatch": 0.0,
        "bounds": [],
    }
    assert data["original"] == {
        "path": "models/minilm.onnx",
        "digest": "a" * 64,
        "latency_ms": 11.0,
        "size_bytes": 90_000_000,
        "peak_memory_bytes": 120_000_000,
        "operators": {"MatMul": 36, "Add": 100, "Gelu": 6},
        "batch": None,
        "generation": None,
        "throughput": None,
        "operator_ms": {},
        "start": None,
    }
    result = data["result"]
    assert (result["latency_ms"], result["latency_ratio"], result["latency_ratio_ci"]) == (
        11.0 * 0.43,
        0.43,
        [0.42, 0.44],
    )
    assert (result["size_bytes"], result["peak_memory_bytes"]) == (60_000_000, 70_000_000)
    assert result["drift"] == {"relative_error": 0.15, "at": "", "max_abs": 0.06, "cosine": 0.989, "foreseen": 0.15}
    assert result["outputs"][0]["name"] == "embeddings"
    assert result["shapes"][1] == {
        "shape": "input_ids 1x32",
        "original_ms": 4.0,
        "result_ms": 4.0 * 0.43,
        "ratio": 0.43,
        "original_calls": None,
        "result_calls": None,
        "ci": [0.42, 0.44],
    }
    assert data["feeds"]["assumptions"][0]["input"] == "input_ids"
    assert (data["feeds"]["samples"], data["feeds"]["compared"]) == (8, 8)
    assert data["search"] == {"computed": 40, "from_cache": 3, "seconds": 58.0, "budget_seconds": 60.0}
    assert data["cached"] is False


def test_every_step_has_every_field_and_its_gain_over_the_chain_without_it():
    steps = strict_json(build_report(sample.improved()))["steps"]
    assert all(set(step) == STEP_FIELDS for step in steps)
    kept = [step for step in steps if step["status"] == "kept"]
    assert [step["pass"] for step in kept] == ["ort.quantize-dynamic", "ort.tune-session"]
    assert kept[1]["ratio_to_original"] == 0.43
    assert kept[1]["ratio_to_best"] == pytest.approx(0.43 / 0.45)
    assert kept[1]["on"] == ["ort.quantize-dynamic"]
    assert {step["status"] for step in steps} == {"kept", "dropped", "not-applicable", "failed", "skipped"}


def test_what_is_not_finite_is_null_and_the_reason_says_it():
    step = next(s for s in strict_json(build_report(sample.improved()))["steps"] if "NaN" in s["reason"])
    assert step["drift"] == {"relative_error": None, "at": "", "max_abs": None, "cosine": -1.0, "foreseen": None}
    equal = replace(sample.compared(0.0), sqnr_db=math.inf)
    outcome = sample.improved()
    outcome.result = sample.compared_as(outcome.result, equal)
    assert strict_json(build_report(outcome))["result"]["outputs"][0]["sqnr_db"] is None


def test_options_that_are_not_finite_are_still_json():
    outcome = sample.improved()
    outcome.attempts[0].step.options["limit"] = math.inf
    try:
        assert strict_json(build_report(outcome))["steps"][0]["options"]["limit"] is None
    finally:
        del outcome.attempts[0].step.options["limit"]


@pytest.mark.parametrize("make", [sample.improved, sample.unchanged, sample.budget_missed])
def test_report_json_reads_back_as_the_same_report(make):
    report = build_report(replace(make(), first_s=1.5))
    assert Report.model_validate_json(report.as_json()) == report.model_copy(update={"sections": ()})


def test_a_run_that_delivers_nothing_has_no_result_and_says_why():
    report = build_report(sample.budget_missed())
    assert report.status == "budget-missed"
    assert report.result is None
    assert report.original.latency_ms is None
    assert "beyond the budget (0.05)" in report.reason
    assert report.reason.endswith("no model is delivered")
    assert "--search-seconds" in _next_step(report, Path("report.html"))
    late = report.model_copy(update={"status": "failed", "reason": "time ran out; give more with --search-seconds"})
    assert _next_step(late, Path("report.html")).endswith("--search-seconds 600; see report.html")
    refused = report.model_copy(update={"status": "failed", "reason": "a.b failed: it has no past", "steps": ()})
    assert _next_step(refused, Path("report.html"), ("a.a", "a.b")).startswith(
        "leave out --with a.b; optim passes show"
    )


def test_a_missed_size_limit_names_the_smallest_model_that_was_made():
    outcome = sample.budget_missed()
    outcome.settings = replace(outcome.settings, bounds=(Bound("size", 5e5),))
    for attempt in outcome.attempts:
        attempt.size_bytes = 843_210
    report = build_report(outcome)
    assert "--max-size 844kB" in _next_step(report, Path("report.html"))
    outcome.settings = replace(outcome.settings, bounds=(Bound("size", 1e6),))
    assert _next_step(build_report(outcome), Path("report.html")).startswith("give more time")


def verdict_of(candidate: Candidate, *figures: float | None, goal: Basis = Basis.CALLS) -> str:
    outcome = sample.improved()
    outcome.goal_basis = goal
    outcome.result = timed_at(candidate, *figures)
    return build_report(outcome).reason


def test_the_verdict_says_what_was_gained_and_at_which_price():
    assert build_report(sample.improved()).reason == (
        "2.3 times faster (ratio 0.43, 95 % interval 0.42 to 0.44), 1.5 times smaller, "
        "drift 0.15 within the budget of 0.17 on synthesized samples"
    )


def test_the_verdict_on_a_lossless_result_names_the_tolerance():
    candidate = Candidate(sample.model("c" * 64), 90_000_000, (sample.FUSE,), (), Drift(3e-7, 1e-6, 1.0))
    assert verdict_of(candidate, 0.805, 0.80, 0.81) == (
        "1.2 times faster (ratio 0.81, 95 % interval 0.80 to 0.81), the same size, "
        "rounding error only: drift 3e-07, rounding explains up to 0.0001"
    )


def test_the_verdict_never_calls_noise_a_gain_nor_hides_a_loss():
    candidate = Candidate(sample.model("c" * 64), 45_000_000, (sample.QUANTIZE,), (), Drift(0.01, 0.1, 0.99))
    text = verdict_of(candidate, 0.98, 0.95, 1.02, goal=Basis.SIZE)
    assert text.startswith("2 times smaller, as fast as before (ratio 0.98, 95 % interval 0.95 to 1.02)")
    assert "1.8 times slower" in verdict_of(candidate, 1.8, 1.7, 1.9, goal=Basis.SIZE)
    assert "2 times larger" in verdict_of(replace(candidate, size_bytes=180_000_000), 0.5)


def test_the_verdict_on_a_target_without_a_clock_speaks_of_no_time():
    candidate = Candidate(sample.model("c" * 64), 45_000_000, (sample.QUANTIZE,), (), Drift(0.01, 0.1, 0.99))
    text = verdict_of(candidate, None)
    assert text == "2 times smaller, drift 0.01 within the budget of 0.17 on synthesized samples"


@pytest.mark.parametrize(
    ("rounds", "said"),
    [(1, "only 1 round was timed; with fewer than six the ratio has no interval"), (5, "5 rounds"), (6, ""), (30, "")],
)
def test_a_ratio_of_few_rounds_says_that_it_has_no_interval(rounds, said):
    outcome = sample.improved()
    result, unchanged = outcome.result, sample.unchanged()
    lane = replace(result.lane, ratio=replace(result.lane.ratio, rounds=rounds))
    notes = " ".join(build_report(replace(outcome, result=replace(result, lane=lane))).notes)
    assert said in notes and ("--search-seconds" in notes) is bool(said)
    unchanged = build_report(replace(unchanged, result=replace(unchanged.result, lane=lane)))
    assert not any("--search-seconds" in note for note in unchanged.notes)


def test_a_lossy_result_of_samples_of_one_size_says_so():
    outcome = sample.improved()
    outcome.prepared = replace(outcome.prepared, one_size=("sequence=128",))
    (note,) = [note for note in build_report(outcome).notes if "sequence=128" in note]
    assert "the drift of a lossy result may be larger at other sizes" in note
    lossless = replace(sample.unchanged(), prepared=outcome.prepared)
    assert not any("sequence=128" in note for note in build_report(lossless).notes)


@pytest.mark.parametrize(
    ("samples", "drift", "said"),
    [(3, 0.16, "by the drift on 3 samples"), (1, 0.16, "by the drift on 1 sample:"), (4, 0.16, ""), (3, 0.08, "")],
)
def test_a_lossy_result_near_the_budget_says_that_few_samples_chose_it(samples, drift, said):
    outcome = sample.improved()
    candidate = replace(outcome.result.candidate, drift=replace(outcome.result.candidate.drift, relative_error=drift))
    outcome.result = replace(outcome.result, candidate=candidate)
    outcome.prepared = replace(outcome.prepared, available=samples, origin="feeds.npz")
    notes = [note for note in build_report(outcome).notes if "optim chose the result" in note]
    assert [said in note for note in notes] == [True] * bool(said)
    outcome.prepared = replace(outcome.prepared, origin=SYNTHESIZED)
    assert not any("optim chose the result" in note for note in build_report(outcome).notes)


def test_an_unchanged_run_delivers_the_original():
    report = build_report(sample.unchanged())
    assert report.status == RunStatus.UNCHANGED.value
    assert report.reason == "no candidate is better than the original; the original is delivered unchanged"
    assert report.result.latency_ratio == 1.0
    assert {shape.ratio for shape in report.result.shapes} == {1.0}


def test_a_pass_that_broke_has_an_entry_and_its_name_is_in_the_verdict():
    report = build_report(sample.with_broken_pass(sample.unchanged()))
    assert report.reason.endswith("; passes that failed: acme.fuse-all")
    told = json.loads(report.as_json())
    assert list(told)[:3] == ["status", "reason", "broken"]
    assert told["broken"] == [
        {
            "pass": "acme.fuse-all",
            "plugin": "acme",
            "distribution": "acme-passes",
            "version": "1.2",
            "times": 2,
            "error": "KeyError: 'scale' (at fuse_all.py:12)",
            "fix": "report it to the authors of acme-passes, with the traceback of that step in report.html; "
            "--without acme.fuse-all runs without the pass",
        }
    ]
    assert next(step["trace"] for step in told["steps"] if step["pass"] == "acme.fuse-all") == sample.TRACE


def test_the_machine_is_known():
    machine = this_machine()
    assert machine.cpu
    assert machine.cores >= 1
    assert machine.memory_bytes is None or machine.memory_bytes > 1 << 28


@pytest.mark.parametrize(
    ("cores", "machine_cores", "quota", "text"),
    [
        (2, 2, None, ""),
        (2, 2, 2.0, ""),
        (1, 2, None, "1 of 2 cores"),
        (8, 8, 1.5, "8 cores, a quota of 1.5"),
        (4, 64, 0.5, "4 of 64 cores, a quota of 0.5"),
    ],
)
def test_a_report_says_where_a_container_gives_fewer_cores_than_there_are(cores, machine_cores, quota, text):
    here = {**asdict(this_machine()), "cores": cores, "machine_cores": machine_cores, "quota": quota}
    report = build_report(replace(sample.unchanged(), machine=here))
    said = [note for note in report.notes if "this process may use" in note]
    assert len(said) == bool(text) and all(text in note for note in said)
    assert cores_text(report.machine) == (text or "2 cores")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("processor\t: 0\nmodel\t\t: 17\nmodel name\t: AMD EPYC\n", "AMD EPYC"),
        ("processor\t: 0\nCPU part\t: 0xd08\n\nHardware\t: BCM2835\nModel\t\t: Raspberry Pi 4\n", "BCM2835"),
        ("processor\t: 0\nCPU part\t: 0xd08\nModel\t\t: Raspberry Pi 5\n", "Raspberry Pi 5"),
        ("", ""),
    ],
)
def test_processors_name_themselves_in_different_ways(text, name):
    assert _from_cpuinfo(text) == name


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("processor\t: 0\nflags\t\t: fpu avx2 fma avx512_vnni avx512f\n", ("avx2", "fma", "avx512f", "avx512_vnni")),
        ("processor\t: 0\nFeatures\t: fp asimd asimddp i8mm\n", ("asimd", "asimddp", "i8mm")),
        ("", ()),
    ],
)
def test_a_report_names_the_instruction_sets_that_kernels_differ_by(text, names):
    assert _instruction_sets(text) == names


@pytest.mark.skipif(
    os.environ.get("OPENBLAS_CORETYPE") == "Haswell",
    reason="benchmarks/as_avx2.py does not change what numpy itself reads from the processor",
)
def test_numpy_finds_the_same_where_the_system_has_no_list(monkeypatch):
    here = this_machine().instruction_sets
    monkeypatch.setattr(machine, "cpuinfo", lambda: "")
    assert this_machine().instruction_sets == tuple(name for name in here if machine._INSTRUCTION_SETS[name])
    assert here


def test_latencies_that_stand_side_by_side_are_of_one_measurement():
    """The result was raced when the machine was slow: its own milliseconds would contradict its ratio."""
    outcome = sample.improved()
    lane = replace(sample.lane(0.81, (11.0, 4.0), 70_000_000), latency_ms=199.0)
    slow = replace(outcome.result, lane=lane)
    outcome = replace(outcome, result=slow, points=[slow])
    report = build_report(outcome)
    assert report.result.latency_ms == pytest.approx(0.81 * report.original.latency_ms)
    assert report.points[0].latency_ms == report.result.latency_ms
    assert all(shape.result_ms == pytest.approx(shape.ratio * shape.original_ms) for shape in report.result.shapes)


def test_one_of_something_is_not_said_in_the_plural():
    drift = DriftReport(relative_error=1e-7, max_abs=1e-6, cosine=1.0)
    found = SourceDriftReport(drift=drift, samples=11, trials=("a",), skipped=("b: too long",), worst="", limit=1e-4)
    assert result_drift_text(found).startswith(
        "result: drift 1e-07 from its source on 11 runs of 1 trial, 0.0001 allowed"
    )
    assert result_drift_text(found).endswith("; it does not accept 1 trial")
    alone = found.model_copy(update={"samples": 1, "skipped": ("b", "c")})
    assert "on 1 trial, " in result_drift_text(alone) and result_drift_text(alone).endswith(
        "; it does not accept 2 trials"
    )
