"""A pipeline from its recorded calls to modules in place: real exports, runs and sessions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest

import optim
from optim_testing import models

pytestmark = [pytest.mark.wide, pytest.mark.usefixtures("jobs_here")]


def test_a_torch_module_is_exported_run_and_replaced_and_a_cheap_session_stays(tmp_path: Path) -> None:
    from recorded_pipes import Pipe

    pipe = Pipe(ort.InferenceSession(models.mlp(tmp_path), providers=["CPUExecutionProvider"]))
    given = [np.random.default_rng(rows).standard_normal((rows, 8)).astype(np.float32) for rows in (3, 5, 2, 7)]
    expected = [pipe(x) for x in given]
    with optim.record(pipe) as recorder:
        for x in given:
            pipe(x)
    found = recorder.optimize(tmp_path / "out", search_seconds=0, least_share=0.0)
    rows = {one.name: one for one in found.modules}
    assert rows["net"].status in ("swapped", "taken back")  # the clock decides
    assert (tmp_path / "out" / "net" / "model.onnx").is_file()
    assert rows["net"].drift is not None
    assert rows["net"].drift < 1e-4
    assert rows["net"].ratio_in_place is not None
    assert rows["stages.0.last"].reason.startswith("unchanged: ")
    assert ("forward" in vars(pipe.net)) == (rows["net"].status == "swapped")
    for x, before in zip(given, expected, strict=True):
        np.testing.assert_allclose(pipe(x)["scores"], before["scores"], rtol=1e-4, atol=1e-5)
    assert "net" in str(found)
    recorder.restore()
    assert "forward" not in vars(pipe.net)
    with pytest.raises(optim.OptimError, match="unknown-target"):
        recorder.optimize(tmp_path / "other", target="abacus", least_share=0.0)
