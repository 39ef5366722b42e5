"""``optim run --trace``: what the file has, what it must not have, and what is refused when it is read."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from counted_clock import counted
from installed_plugin import installed
from jobs_here import done_here
from timed_models import write_network
from trace_file import read_trace

from optim import OptimError
from optim._engine.cli.main import main
from optim._engine.plugins.registry import load_registry
from optim._engine.search.rows import OUT_OF_TIME
from optim._engine.trace import Recorder, trace_of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("traced")
    with installed(folder, "lossy_plugin"), counted(), done_here():
        write_network(folder / "model.onnx", {"a": 6}, useful=6)
        registry = load_registry()
        others = [one.name for one in registry.offers(registry.target("cpu")) if not one.name.startswith("lossy.")]
        words = ["--search-seconds", "60", *(f"--without={name}" for name in others)]
        run = [str(folder / "model.onnx"), "-o", str(folder / "out"), "--trace", str(folder / "run.trace")]
        assert main(["run", *run, *words]) == 0
        yield folder


@pytest.fixture(scope="module")
def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in gzip.decompress((folder / "run.trace").read_bytes()).splitlines()]


def test_every_job_and_every_race_is_an_action_with_its_key_its_answer_and_its_seconds(folder: Path) -> None:
    trace, report = read_trace(folder / "run.trace"), json.loads((folder / "out" / "report.json").read_text())
    kinds = {action["name"] for action in trace.actions}
    assert {"ingest", "prepare", "offer", "candidate", "repair_job", "race_job"} <= kinds
    assert all(
        action["seconds"] >= 0 and action["key"] and ("answer" in action) is not ("failed" in action)
        for action in trace.actions
    )
    assert [action["left"] + action["at"] for action in trace.actions] == pytest.approx([60.0] * len(trace.actions))
    assert trace.end["delivered"] == report["result"]["digest"]
    assert trace.end["status"] == "improved" and trace.end["model"] == report["original"]["digest"]
    proven = [point for point in trace.end["points"] if point["proven"] and point["within"]]
    assert min(point["ratio"] for point in proven) == pytest.approx(report["result"]["latency_ratio"])
    assert [row["reason"] for row in trace.end["rows"]] and len(trace.end["rows"]) == len(report["steps"])


def test_a_race_has_the_ratio_of_each_round(folder: Path) -> None:
    races = [one["answer"] for one in read_trace(folder / "run.trace").actions if one["name"].endswith("race_job")]
    timed = [lane for race in races for lane in race["lanes"] if lane["ratio"]]
    assert timed and all(len(lane["round_ratios"]) == lane["ratio"]["rounds"] for lane in timed)


def test_a_race_has_the_seconds_of_its_processes(folder: Path) -> None:
    trace = read_trace(folder / "run.trace")
    races = [one for one in trace.actions if one["name"].endswith("race_job") and one["request"]["effort"]]
    assert races and all(one["processor_s"] > 0 for one in races)
    timed = [lane for one in races for lane in one["answer"]["lanes"] if lane["ratio"]]
    assert timed and all(lane["processor_s"] > 0 for lane in timed)


def test_components_have_a_trace_each() -> None:
    assert trace_of("", "decoder") == "" and trace_of("run.trace", "decoder") == "run-decoder.trace"
    assert Path(trace_of("there/run", "encoder")) == Path("there/run-encoder")


class Still:
    """A clock that stands."""

    spent, left = 0.0, 30.0


def test_names_of_nodes_survive_where_the_command_runs_in_the_root_folder(tmp_path: Path) -> None:
    with Recorder(tmp_path / "run.trace", {}, {"/": ".", str(tmp_path): "<source>"}) as trace:
        trace.goes_by(Still())
        with trace.action("job", {"node": "/encoder/layer.0/Add", "file": f"{tmp_path}/a.onnx"}):
            pass
        trace.finish({"model": ""})
    asked = read_trace(tmp_path / "run.trace").actions[0]["request"]
    assert asked == {"node": "/encoder/layer.0/Add", "file": "<source>/a.onnx"}


def test_no_path_of_this_machine_is_in_it(folder: Path, lines: list[dict[str, Any]]) -> None:
    text = json.dumps(lines)
    assert str(folder) not in text and str(Path.home()) + "/" not in text
    assert "<store>/models/" in text and '"source": "model.onnx"' in text and lines[0]["asked"]["trace"] == ""
    assert (folder / "run.trace").stat().st_size < 1 << 20


def written(path: Path, lines: list[dict[str, Any]]) -> Path:
    path.write_bytes(gzip.compress("\n".join(map(json.dumps, lines)).encode()))
    return path


def test_a_trace_that_was_cut_off_is_refused(folder: Path, lines: list[dict[str, Any]], tmp_path: Path) -> None:
    whole = (folder / "run.trace").read_bytes()
    (tmp_path / "half").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "text").write_text("no trace")
    (tmp_path / "empty").write_bytes(gzip.compress(b""))
    written(tmp_path / "no-end", lines[:-1])
    written(tmp_path / "gap", [*lines[:3], *lines[4:]])
    written(tmp_path / "list", [[], []])
    for name in ("half", "text", "empty", "no-end", "gap", "list"):
        with pytest.raises(OptimError, match=f"damaged-trace.*{name} is not a complete trace"):
            read_trace(tmp_path / name)


def test_another_version_and_another_model_are_refused(lines: list[dict[str, Any]], tmp_path: Path) -> None:
    path = written(tmp_path / "new", [{**lines[0], "optim_trace": 99}, *lines[1:]])
    with pytest.raises(OptimError, match=r"trace-version.*\n.*version 99, and this optim reads version 3"):
        read_trace(path)
    trace = read_trace(written(tmp_path / "same", lines))
    trace.require_model(trace.end["model"])
    with pytest.raises(OptimError, match="trace-of-other-model"):
        trace.require_model("0" * 64)


def test_why_a_step_was_not_tried_survives_the_file(folder: Path) -> None:
    rows = read_trace(folder / "run.trace").end["rows"]
    assert all(row["out_of_time"] is (row["reason"] == OUT_OF_TIME) for row in rows)
    assert any(row["objection"]["beyond_budget"] for row in rows)


def test_an_interrupted_run_leaves_no_trace_and_keeps_an_older_one(tmp_path: Path) -> None:
    (tmp_path / "old.trace").write_bytes(b"of an earlier run")
    for name in ("new.trace", "old.trace"):
        with pytest.raises(KeyboardInterrupt), Recorder(tmp_path / name, {}, {}):
            raise KeyboardInterrupt
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("old.trace", b"of an earlier run")]
