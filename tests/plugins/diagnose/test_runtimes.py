"""``optim runtimes``: other versions of onnxruntime, run by the jobs of their workers."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import onnxruntime
import pytest
from click.testing import CliRunner

import optim
from optim._engine.cli.main import main
from optim.errors import ExitStatus, OptimError
from optim_plugins.diagnose.runtimes.command import moved, runtimes, versions_of
from optim_plugins.diagnose.runtimes.environment import environment_of
from optim_plugins.diagnose.runtimes.target import target_name
from optim_testing import models

DOUBLED = """import onnxruntime
run = onnxruntime.InferenceSession.run
onnxruntime.InferenceSession.run = lambda *given, **more: [2 * array for array in run(*given, **more)]
"""


@pytest.fixture
def versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Environments of two versions that are the installed one; the second doubles what it computes if it is told."""
    monkeypatch.setenv("OPTIM_DATA_DIR", str(tmp_path / "data"))
    found = ["1.90.0", "1.91.0"]
    for version in found:
        isolation = environment_of(version)
        home = tmp_path / "data" / "environments" / isolation.plugin
        (home / "bin").mkdir(parents=True)
        (home / "site").mkdir()
        python = home / "bin" / "python"
        python.write_text(f'#!/bin/sh\nPYTHONPATH={home}/site exec {sys.executable} "$@"\n')
        python.chmod(0o755)
        made = {"python": "3", "requirements": list(isolation.requirements), "size_bytes": 1}
        (home / "optim.json").write_text(json.dumps(made))
    return found


@pytest.mark.slow
@pytest.mark.usefixtures("jobs_here")
def test_versions_are_timed_compared_and_profiled(tmp_path: Path, versions: list[str]) -> None:
    model = models.mlp(tmp_path)
    words = [str(model), f"onnxruntime=={','.join(versions)}", "--seconds", "0.2", "--json"]
    done = CliRunner().invoke(runtimes, words, catch_exceptions=False, standalone_mode=False)
    found = json.loads(done.stdout)
    assert [row["target"] for row in found["bench"]["models"]] == [f"onnxruntime:version={one}" for one in versions]
    assert found["bench"]["models"][1]["latency_ratio"] > 0
    assert found["verify"][versions[1]]["lossless"]
    assert found["operators"].keys() == set(versions)
    assert sum(one["nodes"] for one in found["operators"][versions[0]].values()) >= 2


@pytest.mark.usefixtures("jobs_here")
def test_a_version_that_computes_something_else_is_beyond_the_budget(tmp_path: Path, versions: list[str]) -> None:
    changed = tmp_path / "data" / "environments" / f"onnxruntime-{versions[1]}" / "site" / "sitecustomize.py"
    changed.write_text(DOUBLED)
    names = [target_name(version) for version in versions]
    found = optim.verify(models.mlp(tmp_path), target=names[0], other_target=names[1])
    assert not found.within
    assert found.drift.relative_error > 0.5


@pytest.mark.usefixtures("jobs_here")
def test_a_model_that_a_version_refuses_is_named_with_it(tmp_path: Path, versions: list[str]) -> None:
    changed = tmp_path / "data" / "environments" / f"onnxruntime-{versions[1]}" / "site" / "sitecustomize.py"
    changed.write_text("import onnxruntime\nonnxruntime.InferenceSession.get_outputs = None\n")
    with pytest.raises(OptimError) as caught:
        optim.verify(models.mlp(tmp_path), other_target=target_name(versions[1]))
    assert "onnxruntime-1.91.0" in str(caught.value)


def test_operators_that_moved_are_shown_and_others_are_not() -> None:
    before = {"MatMul": {"ms": 1.0, "nodes": 4}, "Gelu": {"ms": 0.1, "nodes": 2}, "Add": {"ms": 0.1, "nodes": 2}}
    after = {"MatMul": {"ms": 2.0, "nodes": 4}, "Erf": {"ms": 0.12, "nodes": 2}, "Add": {"ms": 0.11, "nodes": 2}}
    rows = moved([before, after])
    assert rows == [["MatMul", "1 (4)", "2 (4)"], ["Erf", "0 (0)", "0.12 (2)"], ["Gelu", "0.1 (2)", "0 (0)"]]


def test_the_installed_version_comes_first_if_one_is_named() -> None:
    assert versions_of("onnxruntime==1.28.0,1.32.0") == ["1.28.0", "1.32.0"]
    assert versions_of("onnxruntime==1.28.0") == [onnxruntime.__version__, "1.28.0"]
    assert environment_of("1.18.1").requirements == ("onnxruntime==1.18.1", "numpy==1.26.4")


@pytest.mark.parametrize("text", ["1.28.0", "torch==2.0", "onnxruntime==", "onnxruntime==1.28.0,", "onnxruntime==../x"])
def test_what_names_no_version_is_refused(text: str) -> None:
    with pytest.raises(OptimError) as caught:
        versions_of(text)
    assert caught.value.reference == "bad-runtime"


def test_a_target_without_an_environment_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["verify", str(models.mlp(tmp_path)), "--other-target", "onnxruntime:version=1.0.1"]
    assert main(words) == ExitStatus.TARGET_UNAVAILABLE
    assert "--runtime onnxruntime==1.0.1" in capsys.readouterr().err


@pytest.mark.usefixtures("jobs_here")
@pytest.mark.parametrize("name", ["stored", "onnxruntime"])
def test_a_target_without_its_setting_says_what_it_needs(name: str, tmp_path: Path) -> None:
    with pytest.raises(OptimError) as caught:
        optim.verify(models.mlp(tmp_path), target=name, other_target="cpu")
    assert (caught.value.reference, "needs a" in str(caught.value)) == ("bad-target-setting", True)


def test_runtime_of_bench_takes_one_model_and_no_target(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = str(models.mlp(tmp_path))
    assert main(["bench", model, "--runtime", "onnxruntime==1.0.0", "--target", "cpu"]) == ExitStatus.USAGE
    assert "--runtime and --target exclude each other" in capsys.readouterr().err
    assert main(["verify", model, model, "--runtime", "onnxruntime==1.0.0"]) == ExitStatus.USAGE
    assert main(["bench", model, "--runtime", "onnxruntime=1.0.0"]) == ExitStatus.USAGE
    assert "bad-runtime" in capsys.readouterr().err


@pytest.mark.wide
def test_a_version_that_does_not_exist_is_one_error_and_a_real_one_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Downloads the installed version of onnxruntime once more."""
    monkeypatch.setenv("OPTIM_DATA_DIR", str(tmp_path / "data"))
    model = str(models.mlp(tmp_path))
    here = onnxruntime.__version__
    assert main(["bench", model, "--runtime", f"onnxruntime=={here},9.9.9", "--seconds", "1"]) == ExitStatus.USAGE
    assert capsys.readouterr().err.count("error[unknown-runtime-version]") == 1
    assert main(["bench", model, "--runtime", f"onnxruntime=={here}", "--seconds", "1"]) == 0
    names = [target_name(here)]
    assert optim.verify(model, target="cpu", other_target=names[0]).lossless
    assert optim.bench(model, target=["cpu", *names], seconds=1).models[1].latency_ratio
