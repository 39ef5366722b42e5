"""A decoder generates on OpenVINO what it generates on onnxruntime."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys

import numpy as np
import onnxruntime
import pytest
from ort_models import DATA
from small_decoder import FACTS, write_decoder

import optim
from optim import SessionConfig
from optim._engine.runs.session_file import SessionFile, write_session_files
from optim._engine.sources.export_file import ComponentFile, export_file, write_export_file
from optim.onnx import describe_model
from optim_openvino.runtime.load_script import load_script
from optim_openvino.runtime.targets import TARGET
from optim_plugins.goals.decoders.decoder import SessionDecoder
from optim_plugins.goals.decoders.load_script import with_growing_past
from optim_testing import models

SEVERAL = [[5, 6, 7, 8, 9], [10, 11], [12, 13, 14]]
LOADED = """
import json, runpy, sys
script = runpy.run_path("load.py")
session, generate = script["load"](), script["generate"]
drawn = script["Sampling"](greedy=False, temperature=2.0, top_k=20, top_p=0.9)
several = json.loads(sys.argv[1])
found = [list(generate([5, 6, 7], 6, session=session)), list(generate(several, 6, session=session))]
found.append(list(generate(several, 6, sampling=drawn, seed=3, session=session)))
found.append(list(generate([5, 6, 7], 6, stop=[found[0][2]])))
for prompt, more in (([[5], []], {}), ([5, 80], {}), ([5], {"max_new_tokens": -1})):
    try:
        next(generate(prompt, session=session, **more))
    except ValueError as error:
        found.append(str(error))
found.append(sorted({"optim", "onnx", "onnxruntime"} & set(sys.modules)))
print(json.dumps(found))
"""


@pytest.mark.parametrize("prompt", [[[3, 4, 5]], [[3], [7]]])
def test_a_decoder_generates_the_same_on_openvino(tmp_path, prompt):
    write_decoder(tmp_path)
    write_export_file(
        tmp_path, export_file("a/source", FACTS, {"model": ComponentFile("model.onnx", {"new": "old"}, 0)})
    )
    expected = optim.load(tmp_path).generate(prompt, max_new_tokens=5)
    write_session_files(tmp_path, SessionFile.of(SessionConfig(), TARGET, owner="optim-plugin-openvino"), "")
    decoder = optim.load(tmp_path)
    assert decoder.session.session.executed_on == {"openvino": 1.0}
    assert np.array_equal(decoder.generate(prompt, max_new_tokens=5), expected)


@pytest.mark.slow
@pytest.mark.usefixtures("jobs_here")
def test_load_py_of_a_run_generates_by_openvino_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("OPTIM_CACHE_DIR", str(tmp_path / "cache"))
    path, folder = DATA / "llama.dynamo.onnx", tmp_path / "out"
    optim.run(path, folder, target="openvino", search_seconds=1, stages=["tune"])
    asked = [sys.executable, "-c", LOADED, json.dumps(SEVERAL)]
    one, several, drawn, stopped, *refused, others = json.loads(subprocess.check_output(asked, cwd=folder))
    decoder = SessionDecoder(onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]))
    assert one == decoder.generate([[5, 6, 7]], max_new_tokens=6)[0].tolist()
    loaded = optim.load(folder)
    assert loaded.generate([[5, 6, 7]], max_new_tokens=6)[0].tolist() == one
    assert [value.name for value in loaded.get_inputs()][:1] == ["input_ids"]
    assert several == decoder.generate(SEVERAL, max_new_tokens=6).T.tolist()
    sampled = decoder.generate(SEVERAL, max_new_tokens=6, sample=True, temperature=2.0, top_k=20, top_p=0.9, seed=3)
    assert drawn == sampled.T.tolist() != several
    assert stopped == one[: one.index(one[2]) + 1]
    assert refused == [
        "a prompt holds no tokens",
        "80 is no token of the model, which has 80",
        "max_new_tokens and seed are 0 or more, not -1 and 0",
    ]
    assert others == []


def test_load_py_feeds_a_memory_as_export_json_says(tmp_path, monkeypatch):
    write_decoder(tmp_path)
    model, state = describe_model(tmp_path / "model.onnx"), {"new": "old"}
    component = ComponentFile("model.onnx", state, 0)
    write_export_file(tmp_path, export_file("a/source", {**FACTS, "context": 9}, {"model": component}))
    script = with_growing_past(load_script(), model, state)
    write_session_files(tmp_path, SessionFile.of(SessionConfig(), TARGET, owner="optim-plugin-openvino"), script)
    generate = runpy.run_path(str(tmp_path / "load.py"))["generate"]
    expected = optim.load(tmp_path).generate([[3, 4], [7, 1]], max_new_tokens=5)
    assert list(generate([[3, 4], [7, 1]], 5)) == expected.T.tolist()
    for prompt, count, said in (([[3], [7, 1]], 5, "no attention_mask"), ([3], 9, "context of 9")):
        with pytest.raises(ValueError, match=said):
            next(generate(prompt, count))
    monkeypatch.setitem(generate.__globals__, "free_bytes", lambda: 10)
    with pytest.raises(MemoryError, match="the past takes"):
        next(generate([3], 5))
    assert with_growing_past(load_script(), model, {}) == load_script()
    assert with_growing_past(load_script(), describe_model(models.mlp(tmp_path)), {}) == load_script()
