"""Goal throughput: how a model is best run is found by its lane, and calls that are too long cost it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from counted_clock import counted, opened
from fusing_run import fusing_run
from installed_plugin import installed
from jobs_here import done_here
from timed_models import write_network

from optim._engine.goals.calls import percentiles
from optim._engine.reports.build import build_report
from optim._engine.reports.outcome import Outcome, RunStatus
from optim._engine.runs.session_file import SessionFile, write_session_files
from optim._engine.runs.session_trust import read_session_file
from optim.goal import Figure, Served, Serving, Subject, Tried
from optim.model import Model, SessionConfig, TensorInfo
from optim.target import Target
from optim_plugins.goals import throughput
from optim_plugins.goals.throughput import ThroughputClock

pytestmark = pytest.mark.slow

CPU = Target("cpu", "ort", "CPUExecutionProvider")
OWN = SessionConfig()


class Session:
    """A call takes 10 ms and 1 ms a row; with one thread of two half as much again."""

    def __init__(self, threads: int | None, log: list[int]) -> None:
        self.pace, self.log = 1.5 if threads == 1 else 1.0, log

    def time_runs(self, feeds: Any, count: int) -> list[float]:
        rows = feeds["x"].shape[0]
        if rows > 16:
            raise RuntimeError("out of memory")
        self.log.append(rows)
        return [self.pace * (0.010 + 0.001 * rows)] * count

    def close(self) -> None:
        self.log.append(-1)


class Backend:
    def __init__(self) -> None:
        self.log: list[int] = []

    def open(self, model: Model, target: Target) -> Session:
        threads = model.session.session_options.get("intra_op_num_threads")
        return Session(int(threads) if threads is not None else None, self.log)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With a graph, as the digest of a model under other settings reads one."""
    write_network(tmp_path / "m.onnx", {"a": 1})
    return tmp_path


def timer_of(
    limit_s: float | None, dimension: str | int, monkeypatch: pytest.MonkeyPatch, folder: Path, threads: int = 0
) -> tuple[Any, Backend]:
    monkeypatch.setattr(throughput, "usable_processors", lambda: 2)
    monkeypatch.setattr(throughput, "_LOOK_S", 0.0)
    monkeypatch.setattr(throughput, "_ROUND_S", 0.0)
    backend = Backend()
    model = Model(folder / "m.onnx", "0", (TensorInfo("x", "float32", (dimension, 3)),), (), {"": 18}, 9)
    feeds = {"x": np.zeros((1, 3), np.float32)}
    target = replace(CPU, threads=threads)
    subject = Subject(backend, model, target, Session(None, backend.log), (feeds,))  # type: ignore[arg-type]
    return ThroughputClock(limit_s).start(subject), backend


def test_batch_sessions_and_threads_are_what_gives_most_samples(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    timer, _ = timer_of(None, "batch", monkeypatch, folder)
    first = timer.round()
    assert first.served.serving == Serving(16, 2, 1)
    assert [one.serving.batch for one in first.served.tried if one.serving.sessions == 1] == [1, 2, 4, 8, 16, 32]
    assert "out of memory" in first.served.tried[5].problem
    assert [one.serving.batch for one in first.served.tried if one.serving.sessions == 2] == [8, 16, 32]
    assert first.seconds == pytest.approx(1.5 * 0.026 / 16 / 2)
    again = timer.round()
    assert again.served is None and again.seconds == first.seconds
    timer.close()


def test_all_sessions_together_have_the_threads_of_the_target(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    timer, _ = timer_of(None, "batch", monkeypatch, folder, threads=1)
    assert {one.serving.sessions for one in timer.round().served.tried} == {1}


def test_calls_keep_within_the_limit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    timer, _ = timer_of(0.0235, "batch", monkeypatch, folder)
    served = timer.round().served
    assert served.serving == Serving(8, 1, None), "two sessions have to be called with batches of 2"
    assert (served.limit_ms, served.tried[-1].problem) == (23.5, "beyond the latency limit")


def test_where_nothing_keeps_within_it_the_shortest_calls_are_timed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    timer, _ = timer_of(0.001, "batch", monkeypatch, folder)
    assert timer.round().served.serving == Serving(1, 1, None)


def test_a_model_that_takes_one_sample_gets_no_batch(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    timer, backend = timer_of(None, 1, monkeypatch, folder)
    served = timer.round().served
    assert (served.serving, served.note) == (Serving(1, 2, 1), "the model accepts no other batch size")
    timer.close()
    assert backend.log.count(-1) == 2, "both further sessions are closed"


def test_sessions_that_cannot_all_be_opened_are_no_way(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    timer, backend = timer_of(None, "batch", monkeypatch, folder)
    opened = backend.open

    def open_one(model: Model, target: Target) -> Session:
        if len(backend.log) > 20:
            raise RuntimeError("no memory")
        backend.log += [0] * 20
        return opened(model, target)

    monkeypatch.setattr(backend, "open", open_one)
    served = timer.round().served
    assert served.serving == Serving(16, 1, None), "a session of one thread is not taken for it"
    assert "no memory" in served.tried[-1].problem
    assert timer.round().seconds == pytest.approx(0.026 / 16)


def test_percentiles_are_of_calls() -> None:
    found = percentiles(place / 1e3 for place in range(101))
    assert found is not None and (found.p50, found.p90, found.p95, found.p99, found.calls) == (50, 90, 95, 99, 101)
    assert percentiles([]) is None


SECONDS_A_NODE = 0.001


def _opened(request: Any, *args: Any, **kwargs: Any) -> Any:
    lane = opened(request, *args, **kwargs)
    lane.counted = SECONDS_A_NODE * len(nodes_of(request))
    lane.limit_s = request.clock.settings["max_latency_s"]
    return lane


def nodes_of(request: Any) -> Any:
    return onnx.load(request.model.path, load_external_data=False).graph.node


def _run_lane(lane: Any, _timeout_s: float) -> float:
    """Every call takes 1 ms a node, in a batch of 4, and a run as long as ever."""
    lane.times.append([0.02] * len(lane.ready.run_s))
    serving = Serving(4, 1, None)
    limit_ms = lane.limit_s * 1e3 if lane.limit_s else None
    served = Served(serving, (Tried(Serving(), 1 / lane.counted, lane.counted),), limit_ms)
    lane.goal.append(Figure(lane.counted / 4, (lane.counted,) * 20, served))
    return 0.0


def outcome_of(folder: Path, limit_ms: float | None) -> Outcome:
    folder.mkdir(exist_ok=True)
    with installed(folder, "timed_plugin"), counted(_opened, _run_lane), done_here():
        return fusing_run(folder, "throughput", max_latency_ms=limit_ms)


def test_what_does_more_samples_a_second_is_delivered(tmp_path: Path) -> None:
    outcome = outcome_of(tmp_path, None)
    assert outcome.status is RunStatus.IMPROVED
    report = build_report(outcome)
    assert report.result is not None and report.result.throughput is not None and report.result.goal_ratio is not None
    assert report.result.goal_ratio.value < 1.0 == report.result.latency_ratio
    assert report.result.throughput.how == "batch 4, 1 session"
    assert report.original.throughput is not None
    assert report.result.throughput.samples_per_second > report.original.throughput.samples_per_second
    assert "as many samples a second" in report.reason


def test_a_limit_that_only_the_result_meets_is_met_by_it(tmp_path: Path) -> None:
    outcome = outcome_of(tmp_path, None)
    original, timed = outcome.original, outcome.timed
    assert original is not None and original.throughput is not None
    assert timed is not None and timed.throughput is not None
    limit_ms = (original.throughput.calls.p95 + timed.throughput.calls.p95) / 2
    met = outcome_of(tmp_path / "again", limit_ms)
    assert met.status is RunStatus.IMPROVED
    assert met.original is not None and met.original.throughput is not None and met.original.throughput.objection


def test_a_limit_that_nothing_meets_is_a_missed_budget(tmp_path: Path) -> None:
    outcome = outcome_of(tmp_path, 0.01)
    assert outcome.status is RunStatus.BUDGET_MISSED and outcome.result is None
    assert outcome.reason.startswith("no candidate meets the latency limit; original: the p95 latency is")
    assert any("--max-latency allows 0.01 ms" in attempt.reason for attempt in outcome.attempts)


def test_the_session_file_says_how_it_was_run(tmp_path: Path) -> None:
    write_session_files(tmp_path, SessionFile.of(OWN, CPU, serving=Serving(8, 2, 1)))
    found = read_session_file(tmp_path)
    assert found.serving == Serving(8, 2, 1)
    assert found.config.session_options == {"intra_op_num_threads": 1}
    write_session_files(tmp_path, SessionFile.of(OWN, CPU))
    assert "serving" not in json.loads((tmp_path / "session.json").read_text(encoding="utf-8"))
