"""docs/python.md: its examples run, one after another, and its tables name what the functions take."""

from __future__ import annotations

import inspect
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import optim
from optim_plugins.diagnose.bench.command import bench as bench_command
from optim_testing import models

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
FACTORIES = """
import torch

def classifier():
    return Classifier(), (torch.zeros(2, 4),)

class Classifier(torch.nn.Linear):
    def __init__(self):
        super().__init__(4, 3)

    def forward(self, x):
        return super().forward(x)
"""


def examples(heading: str = "") -> list[str]:
    text = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0] if heading else PAGE
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPTIM_CACHE_DIR", str(tmp_path / "cache"))
    models.mlp(tmp_path, width=128).rename(tmp_path / "model.onnx")
    return tmp_path


@pytest.mark.slow
@pytest.mark.usefixtures("jobs_here")
def test_the_examples_run(folder, capsys, monkeypatch):
    monkeypatch.setattr(optim, "run", partial(optim.run, stages=["post-process"]))  # what is shown is not the search
    monkeypatch.setattr("jobs_here._Channel.receive", lambda self: {"go": True}, raising=False)  # the clock is free
    monkeypatch.setattr("jobs_here._Here.send", lambda self, message: None, raising=False)
    page: dict[str, Any] = {}
    own = [text for text in examples() if text not in examples("optim.export")]
    assert len(own) == 12
    for text in own:
        quick = text.replace("search_seconds=5", "search_seconds=0").replace(" seconds=1", " seconds=0.1")
        exec(compile(quick, "python.md", "exec"), page)
    told = capsys.readouterr().out
    assert "unknown-target optim targets" in told
    assert "given-in-python.npz 8" in told
    assert "accuracy (in Python) 0.1" in told
    assert page["found"].models[1].error is None
    assert page["outputs"][0].shape == (4, 10)
    assert page["tried"].changed
    assert [one.status for one in page["optimized"].modules] == ["stays"]
    assert 0 < page["tried"].drift < 1
    assert page["outputs_of_tried"]["y"].shape == (4, 10)


@pytest.mark.slow
@pytest.mark.usefixtures("jobs_here", "quick_exports")
def test_the_example_of_an_export_runs(folder, capsys):
    (folder / "factories.py").write_text(FACTORIES)
    page: dict[str, Any] = {"optim": optim}
    (text,) = examples("optim.export")
    exec(compile(text, "python.md", "exec"), page)
    assert page["made"].components[0].drift < 1e-5
    assert [value.name for value in page["session"].get_inputs()] == ["x"]


def test_the_table_of_run_names_what_it_takes():
    rows = re.findall(r"^\| (`.+?) \|", PAGE.partition("### Data")[0], re.MULTILINE)
    named = set(re.findall(r"`(\w+)`", " ".join(rows)))
    assert named == set(inspect.signature(optim.run).parameters)


@pytest.mark.parametrize("verb", ["run", "load", "verify", "bench", "export", "record"])
def test_every_function_has_a_section(verb):
    assert f"\n## optim.{verb}\n" in PAGE
    assert verb in optim.__all__


def test_bench_and_its_grid_take_as_long_as_the_command() -> None:
    option = next(one for one in bench_command.params if one.name == "seconds")
    for function in (optim.bench, optim.bench_grid):
        assert inspect.signature(function).parameters["seconds"].default == option.default
