"""``--target cpu:threads=N``: what is timed, compared and delivered has so many threads."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest
from timed_models import write_network

import optim
from optim import ExitStatus, OptimError, Target
from optim._engine.cli.main import main
from optim.jobs import usable_processors
from optim_plugins.ort.cpu_target import CPU


def _chosen(**settings: str) -> Target:
    assert CPU.configure is not None
    return CPU.configure(settings)


@pytest.mark.parametrize("setting", ["threads=0", "threads=-1", "threads=two", "threads=²", "cores=1"])
def test_threads_are_a_count(setting: str) -> None:
    key, _, value = setting.partition("=")
    with pytest.raises(OptimError) as caught:
        _chosen(**{key: value})
    assert caught.value.status is ExitStatus.USAGE
    assert key in caught.value.what and "--target cpu:threads=1" in caught.value.fix


def test_more_than_this_process_may_use_are_the_reason_why_the_target_is_not_here() -> None:
    processors = usable_processors()
    assert _chosen(threads=str(processors)).unavailable() is None
    reason = _chosen(threads=str(processors + 1)).unavailable() or ""
    assert f"threads={processors + 1} is more than the {processors} processor" in reason


@pytest.mark.slow
def test_a_run_for_one_thread_delivers_one_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, out = tmp_path / "model.onnx", tmp_path / "out"
    write_network(model, {"a": 1})
    report = optim.run(model, out, target="cpu:threads=1", search_seconds=1, stages=["tune"])
    assert any("1 thread at most" in note for note in report.notes)
    assert json.loads((out / "session.json").read_text())["session_options"]["intra_op_num_threads"] == 1
    session = runpy.run_path(str(out / "load.py"))["load"]()
    assert session.get_session_options().intra_op_num_threads == 1
    assert optim.load(out).get_session_options().intra_op_num_threads == 1
    assert main(["bench", str(model), str(out), "--seconds", "0.1"]) == ExitStatus.DELIVERED
    assert "out has 1 thread by its session.json" in capsys.readouterr().err
    assert main(["bench", str(model), str(out), "--seconds", "0.1", "--target", "cpu:threads=1"]) == 0
    assert "by its session.json" not in capsys.readouterr().err
