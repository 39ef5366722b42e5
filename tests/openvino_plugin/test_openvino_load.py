"""What a run for OpenVINO delivers: opened without optim, by optim, and not where a stranger wrote it."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys

import numpy as np
import onnx
import pytest

import optim
from optim import OptimError
from optim._engine.runs.session_file import SessionFile, write_session_files
from optim.backend import Delivery
from optim.onnx import describe_model
from optim_openvino.runtime.backend import OpenVinoBackend
from optim_openvino.runtime.core import capabilities
from optim_openvino.runtime.properties import PRECISION, as_session
from optim_openvino.runtime.targets import TARGET
from optim_testing import models

USE_THE_SCRIPT = """
import json, sys, runpy, numpy
session = runpy.run_path(sys.argv[1])["load"]()
x = numpy.ones((2, 32), numpy.float32)
x.setflags(write=False)  # as arrays of a mapped file are
refused = []
for names, feeds in ((None, {"of nobody": x}), (["of nobody"], {"x": x})):
    try:
        session.run(names, feeds)
    except ValueError as error:
        refused.append(str(error))
print(json.dumps({
    "y": session.run(["y"], {"x": x, "of nobody": x})[0].tolist(),
    "inputs": [tuple(one) for one in session.get_inputs()],
    "refused": refused,
    "asked once": session.get_inputs() is session.get_inputs(),
    "precision": str(session.compiled.get_property("INFERENCE_PRECISION_HINT").to_string()),
    "others": sorted({"optim", "onnx", "onnxruntime"} & set(sys.modules)),
}))
"""


@pytest.fixture
def run_folder(tmp_path):
    path = models.mlp(tmp_path)
    path.rename(tmp_path / "model.onnx")
    session = as_session({PRECISION: "bf16"})
    delivery = Delivery(tmp_path, describe_model(tmp_path / "model.onnx", session=session), TARGET, ())
    script = OpenVinoBackend().load_script(delivery)
    write_session_files(tmp_path, SessionFile.of(session, TARGET, owner="optim-plugin-openvino"), script)
    return tmp_path


def test_load_py_needs_openvino_alone_and_gives_what_optim_load_gives(run_folder):
    asked = [sys.executable, "-c", USE_THE_SCRIPT, run_folder / "load.py"]
    found = json.loads(subprocess.check_output(asked, text=True))
    assert found["precision"] == ("bf16" if "BF16" in capabilities("CPU") else "f32"), "asked for, where there is such"
    assert found["others"] == []
    assert "inputs ['x']" in found["refused"][0]
    assert "no output ['of nobody'], only ['y']" in found["refused"][1]
    assert found["asked once"]
    x = np.ones((2, 32), np.float32)
    x.setflags(write=False)
    with optim.load(run_folder) as session:
        expected = session.run(["y"], {"x": x})[0]
        assert found["inputs"] == [["x", session.get_inputs()[0].type, [None, 32]]]
    assert np.array_equal(np.array(found["y"], np.float32), expected)


def test_load_py_calls_an_output_as_the_graph_does_where_openvino_leaves_nodes_out(run_folder):
    graph = onnx.load(run_folder / "model.onnx")
    given = graph.graph.output[0].name
    graph.graph.node[-1].output[0] = "another"
    graph.graph.node.append(onnx.helper.make_node("Identity", ["another"], [given]))
    onnx.save(graph, run_folder / "model.onnx")
    session = runpy.run_path(str(run_folder / "load.py"))["load"]()
    assert session.compiled.output(0).any_name == "another"
    assert [one.name for one in session.get_outputs()] == [given]


def test_without_the_plugin_its_settings_are_no_reason_to_refuse_the_folder_but_the_runtime_is(run_folder, monkeypatch):
    monkeypatch.setenv("OPTIM_DISABLE_PLUGINS", "openvino")
    with pytest.raises(OptimError) as caught:
        optim.load(run_folder)
    assert (caught.value.reference, caught.value.fix) == (
        "runtime-missing",
        "install optim-plugin-openvino, which brings it: docs/install.md",
    )


@pytest.mark.parametrize("name", ["CACHE_DIR", "WEIGHTS_PATH"])
@pytest.mark.parametrize("place", ["tuned_provider_options", "provider_options"])
def test_the_settings_of_a_stranger_name_no_file(run_folder, name, place):
    saved = json.loads((run_folder / "session.json").read_text())
    said = {name: "victim"}
    saved[place] = {"openvino": said} if place.startswith("tuned") else said
    (run_folder / "session.json").write_text(json.dumps(saved))
    with pytest.raises(OptimError, match="untrusted-setting") as caught:
        optim.load(run_folder)
    assert name in caught.value.cause
