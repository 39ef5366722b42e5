"""A Hugging Face folder straight to HTP: exported, verified, and run on the simulator."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from qnn_models import on_htp

from optim._engine.cli.main import main

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("jobs_here", "quick_exports")]


@on_htp
def test_a_folder_with_a_model_of_transformers_becomes_a_model_for_htp(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("transformers", reason="transformers is not installed: nothing can be exported")
    from tiny_models import save

    monkeypatch.setenv("OPTIM_CACHE_DIR", str(tmp_path / "cache"))
    source, out = save("bert", tmp_path / "source"), tmp_path / "out"
    data, shape = tmp_path / "sentences.npz", (1, 8)
    ids = np.random.default_rng(0).integers(0, 99, shape)
    np.savez(data, input_ids=ids, attention_mask=np.ones(shape, np.int64), token_type_ids=np.zeros(shape, np.int64))
    here = ("--target", "qnn", "--data", str(data))
    status = main(["run", str(source), "-o", str(out), *here, "--search-seconds", "60", "--stage", "tune"])
    assert status == 0, capfd.readouterr().err
    report = json.loads((out / "report.json").read_text())
    assert report["export"]["steps"], "it was not exported"
    assert (out / "model.onnx").is_file()
    assert main(["verify", str(source), str(out), *here]) == 0
