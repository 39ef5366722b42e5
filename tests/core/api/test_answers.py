from __future__ import annotations

import compileall
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from sample_outcome import improved

import optim
import optim.onnx
from optim._engine.reports.answers import Benchmark, TimedModel
from optim._engine.reports.build import build_report

LIGHT = (
    "import sys, optim; assert callable(optim.run); print([m for m in ('numpy', 'onnx', 'torch') if m in sys.modules])"
)


def test_neither_import_nor_looking_up_run_loads_anything_heavy():
    found = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"


HANDED_ON = "import optim, optim.onnx; print(optim.__file__, len(optim.__all__), optim.OptimError, optim.onnx.__all__)"


@pytest.mark.parametrize("kind", ["a zip", "compiled files alone"])
def test_names_are_handed_on_without_source_files(kind, tmp_path):
    source = Path(optim.__file__).parent
    shutil.copytree(source, tmp_path / "optim", ignore=shutil.ignore_patterns("__pycache__"))
    place = tmp_path
    if kind == "a zip":
        place = Path(shutil.make_archive(str(tmp_path / "packed"), "zip", tmp_path, "optim"))
    else:
        compileall.compile_dir(tmp_path, quiet=1, legacy=True)
        for file in tmp_path.rglob("*.py"):
            file.unlink()
    found = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(place)!r}); {HANDED_ON}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.startswith(str(place))
    assert f" {len(optim.__all__)} <class 'optim.errors.OptimError'> {optim.onnx.__all__}" in found.stdout


def test_a_report_is_shown_in_a_notebook_as_its_page_without_scripts():
    shown = build_report(improved())._repr_html_()
    assert shown.startswith('<iframe srcdoc="&lt;!')
    assert 'sandbox=""' in shown
    assert "<html" not in shown  # escaped whole: nothing of it is the notebook's


def test_a_benchmark_is_a_table_in_which_texts_are_escaped():
    timed = TimedModel(
        model="<b>.onnx",
        error="it does not run",
        latency_ms=None,
        size_bytes=None,
        peak_memory_bytes=None,
        latency_ratio=None,
        latency_ratio_ci=None,
        rounds=0,
        shapes=(),
    )
    found = Benchmark(target="cpu", feeds="made up", models=(timed,))
    assert len(found.rows()[0]) == len(found.columns)
    assert "<td>&lt;b&gt;.onnx</td>" in found._repr_html_()
    assert "it does not run" in found._repr_html_()
    assert str(found).splitlines()[:2] == ["timed on cpu, made up", "\t".join(found.columns)]


def test_print_shows_of_a_report_what_a_terminal_would(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    shown = str(build_report(improved()))
    assert shown.startswith("improved: ")
    assert "\x1b" not in shown
    assert "StepReport" not in shown
