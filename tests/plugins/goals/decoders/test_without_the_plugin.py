"""Where the plugin that drives decoders cannot be used, a model opens as a session, and what needs it says so."""

from __future__ import annotations

from pathlib import Path

import pytest
from ort_models import DATA
from small_decoder import FACTS, write_decoder

import optim
from optim._engine.plugins.registry import load_registry
from optim._engine.runs.compare.bench import clock_of_program
from optim._engine.sources.export_file import ComponentFile, export_file, write_export_file
from optim.cli_kit import write_model
from optim.goal import GoalRequest
from optim.onnx import describe_model
from optim.target import Target

CPU = Target("cpu", "onnxruntime", "CPUExecutionProvider")


@pytest.fixture(autouse=True)
def without_goals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPTIM_DISABLE_PLUGINS", "goals")


def test_a_folder_that_generates_is_refused_with_the_name_of_the_plugin(tmp_path: Path) -> None:
    write_decoder(tmp_path)
    component = ComponentFile("model.onnx", {"new": "old"}, 0)
    write_export_file(tmp_path, export_file("a/source", FACTS, {"model": component}))
    with pytest.raises(optim.OptimError, match="plugin-failed") as refused:
        optim.load(tmp_path)
    assert "goals" in refused.value.cause + refused.value.what


def test_a_graph_with_a_past_opens_as_a_session(tmp_path: Path) -> None:
    write_model(describe_model(DATA / "llama.dynamo.onnx"), tmp_path / "out", CPU)
    assert not isinstance(optim.load(tmp_path / "out"), optim.Decoder)
    assert "def generate(" not in (tmp_path / "out" / "load.py").read_text()


def test_answers_of_another_program_cannot_be_timed(tmp_path: Path) -> None:
    with pytest.raises(optim.OptimError, match="plugin-failed"):
        clock_of_program(load_registry(), tmp_path, GoalRequest())
