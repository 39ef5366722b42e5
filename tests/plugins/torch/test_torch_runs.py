"""Runs from a source to a result that is held against what torch itself computes."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_models
from tiny_models import save

import optim
from optim._engine.cli.main import main

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("jobs_here")]

SMALLER = ("--goal", "size", "--stage", "quantize", "--search-seconds", "300")


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One cache for all, and the folder of ``torch_factories`` as the one where the command is given."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPTIM_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        patch.chdir(Path(tiny_models.__file__).parent)
        yield


def run(output: Path, source: str | Path, *arguments: str) -> tuple[int, dict[str, Any], str]:
    """Exit status, report and standard error of ``optim run``."""
    said, error = io.StringIO(), io.StringIO()
    with redirect_stdout(said), redirect_stderr(error):
        status = main(["run", str(source), "-o", str(output), "--json", *arguments])
    assert said.getvalue(), error.getvalue()
    return status, json.loads(said.getvalue()), error.getvalue()


def test_a_smaller_module_is_held_against_torch_on_every_trial(tmp_path: Path) -> None:
    status, report, _ = run(tmp_path / "out", "torch_factories:linear_layers", *SMALLER)
    assert status == 0 and report["status"] == "improved"
    found = report["export"]["result_drift"]
    assert found["trials"] == report["export"]["trials"] and found["samples"] == 5
    assert 1e-4 < found["drift"]["relative_error"] < found["limit"]
    assert 0.1 <= found["limit"] < 0.1001  # the budget, and what the export itself moves
    assert "from its source on 5 trials" in (tmp_path / "out" / "report.html").read_text()
    written = json.loads((tmp_path / "out" / "export.json").read_text())["components"]["model"]["drift"]
    assert written == found["drift"]["relative_error"]


def test_made_up_inputs_that_hide_a_drift_do_not_hide_it_from_torch(tmp_path: Path) -> None:
    arguments = ("torch_factories:linear_layers", "--source-arg", "outlier=1000.0", *SMALLER)
    status, report, _ = run(tmp_path / "out", *arguments)
    found = report["export"]["result_drift"]
    assert status == 0 and report["status"] == "improved"  # by activations of 16 bits
    assert found["drift"]["relative_error"] < found["limit"]
    dropped = [step for step in report["steps"] if "from the source" in step["reason"]]
    assert dropped and all(step["status"] == "dropped" for step in dropped)
    assert all(step["drift"]["relative_error"] < 0.05 for step in dropped)  # on the run's own samples


def test_what_is_too_far_from_torch_misses_the_budget_that_was_given(tmp_path: Path) -> None:
    named = ("--with", "ort.quantize-dynamic:activation_bits=8", "--max-drift", "0.05")
    arguments = ("torch_factories:linear_layers", "--source-arg", "outlier=1000.0", *SMALLER, *named)
    status, report, error = run(tmp_path / "out", *arguments)
    assert status == 4 and report["status"] == "budget-missed" and report["result"] is None
    assert "from the source" in error and not (tmp_path / "out" / "model.onnx").exists()


def test_shapes_that_the_result_no_longer_takes_are_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "feeds.npz", x=np.random.default_rng(0).standard_normal((2, 3, 64)).astype(np.float32))
    status, report, _ = run(
        tmp_path / "out",
        "torch_factories:linear_layers",
        "--stage",
        "fuse",
        "--with",
        "ort.fix-shapes",
        "--search-seconds",
        "60",
        "--data",
        str(tmp_path / "feeds.npz"),
    )
    found = report["export"]["result_drift"]
    assert status == 0 and found["trials"] == ["example 1"]
    assert any("'x' takes [2, 3, 64], and this is [3, 5, 64]" in text for text in found["skipped"])


def test_the_user_s_own_data_says_what_the_budget_is_for(tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((2, 4, 64)).astype(np.float32)
    np.savez(tmp_path / "feeds.npz", x=x)
    arguments = ("torch_factories:linear_layers", "--source-arg", "outlier=1000.0", *SMALLER)
    status, report, _ = run(tmp_path / "out", *arguments, "--data", str(tmp_path / "feeds.npz"))
    found = report["export"]["result_drift"]
    assert status == 0 and report["status"] == "improved"
    assert found["drift"]["relative_error"] > found["limit"] and "meets the budget on your data" in found["note"]


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a decoder, which is exported once."""
    return Path(save("llama-64", tmp_path_factory.mktemp("llama") / "source"))


def test_a_decoder_s_folder_is_held_against_torch_step_by_step(llama: Path, tmp_path: Path) -> None:
    words = (*SMALLER, "--max-drift", "0.2", "--without", "ort.quantize-weights")
    status, report, _ = run(tmp_path / "out", llama, *words)
    assert status == 0 and report["status"] == "improved"
    found = report["export"]["result_drift"]
    assert found["samples"] > len(found["trials"]) == len(report["export"]["trials"])
    assert 0 < found["drift"]["relative_error"] < found["limit"]
    assert optim.load(tmp_path / "out").generate([[5, 6, 7]], max_new_tokens=3).shape == (1, 3)
