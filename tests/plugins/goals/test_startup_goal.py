"""Goal startup: what opens and answers sooner is better, whatever a later run takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest
from counted_clock import counted, opened
from fusing_run import fusing_run
from installed_plugin import installed
from jobs_here import done_here

from optim._engine.reports.build import build_report
from optim._engine.reports.outcome import RunStatus
from optim.goal import Figure, Subject
from optim_plugins.goals.startup import StartupClock

SECONDS_A_NODE = 0.01
RUN_S = 0.02


def _opened(request: Any, *args: Any, **kwargs: Any) -> Any:
    lane = opened(request, *args, **kwargs)
    nodes = onnx.load(request.model.path, load_external_data=False).graph.node
    lane.counted = SECONDS_A_NODE * len(nodes) if request.clock else 0.0
    return lane


def _run_lane(lane: Any, timeout_s: float) -> float:
    """Every model runs as fast as any other, and opens the sooner the fewer nodes it has."""
    lane.times.append([RUN_S] * len(lane.ready.run_s))
    lane.goal += [Figure(lane.counted)] if lane.counted else []
    return 0.0


@pytest.mark.slow
def test_what_opens_sooner_is_delivered_where_that_is_the_goal(tmp_path: Path) -> None:
    with installed(tmp_path, "timed_plugin"), counted(_opened, _run_lane), done_here():
        outcome = fusing_run(tmp_path, "startup")
    assert outcome.status is RunStatus.IMPROVED
    result = outcome.result
    assert result is not None and result.lane.goal is not None and result.ratio == 1.0
    assert result.lane.goal.high < 1.0
    report = build_report(outcome)
    assert report.result is not None and report.result.goal_ratio is not None
    assert report.result.goal_ratio.value == pytest.approx(result.lane.goal.value)
    assert report.reason.startswith("starts ") and "start-up ratio" in report.reason
    assert report.reason.count("ratio") == 1
    kept = [step for step in report.steps if step.status == "kept"]
    assert kept and all("start-up ratio" in step.reason for step in kept)


def test_a_start_is_an_opening_and_a_run() -> None:
    seen: list[str] = []

    class Opened:
        def __enter__(self) -> Any:
            return self

        def __exit__(self, *_: object) -> None:
            seen.append("closed")

        def run(self, _feeds: Any) -> None:
            seen.append("run")

    class Backend:
        def open(self, _model: Any, _target: Any) -> Opened:
            seen.append("opened")
            return Opened()

    subject = Subject(Backend(), None, None, None, ({},))  # type: ignore[arg-type]
    assert StartupClock().start(subject).round().seconds > 0
    assert seen == ["opened", "run", "closed"]
