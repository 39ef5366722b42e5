"""The share of nodes on HTP, read from the profile of a run on the simulator."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from onnx import helper
from qnn_models import BACKEND, QNN, build, on_htp

from optim._engine.plugins.registry import load_registry
from optim.providers import provider_shares
from optim_qnn.htp.profile import kernels, ran

CPU, HTP = "CPUExecutionProvider", "QNNExecutionProvider"


def event(name, provider="", index="", category="Node"):
    return {"cat": category, "name": name, "args": {"provider": provider, "node_index": index} if provider else {}}


def test_a_profile_has_kernels_and_htps_are_counted_by_their_nodes(tmp_path):
    profile = tmp_path / "profile.json"
    events = [
        event("model_run", category="Session"),
        event("fence"),
        event("part_kernel_time", HTP, "9"),
        event("det_kernel_time", CPU, "2"),
        event("det_kernel_time", CPU, "2"),
        event("det_2_kernel_time", CPU, "3"),
    ]
    profile.write_text(json.dumps(events), encoding="utf-8")
    found = kernels(profile)
    assert found == {HTP: 1, CPU: 2}
    assert ran(found, {HTP: 6, CPU: 5}) == {HTP: 6, CPU: 2}
    assert provider_shares(ran(found, {HTP: 6, CPU: 2}), HTP) == {HTP: 0.75, CPU: 0.25}


def test_what_was_assigned_and_did_not_run_has_no_share():
    assert provider_shares(ran({CPU: 3}, {HTP: 6, CPU: 3}), HTP) == {CPU: 1.0}


@on_htp
@pytest.mark.parametrize("fallback", [True, False])
def test_with_a_fallback_the_first_run_is_profiled_and_nothing_is_left_behind(tmp_path, monkeypatch, fallback):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    nodes = [helper.make_node("Relu", ["x"], ["y"], name="relu")]
    if fallback:
        nodes += [helper.make_node("Mul", ["y", "y"], ["m"]), helper.make_node("Det", ["m"], ["z"], name="det")]
    outputs = {"z": [1]} if fallback else {"y": [1, 4, 4]}
    model = build(tmp_path, nodes, {"x": [1, 4, 4]}, outputs)
    target = load_registry().target("qnn:fallback=cpu") if fallback else QNN
    with BACKEND.open(model, target.plain) as session:
        for _ in range(2):
            session.run({"x": np.ones((1, 4, 4), np.float32)})
        assert session.executed_on == ({HTP: 2 / 3, CPU: 1 / 3} if fallback else {HTP: 1.0})
    assert list(Path(tmp_path / "scratch").iterdir()) == []
