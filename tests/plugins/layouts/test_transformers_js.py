"""The layout ``transformers.js``, opened by the npm package in Node, from the disk alone."""

from __future__ import annotations

import json
import shutil

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from optim_plugins.layouts.kinds.transformers_js import TransformersJs, dtype_of_graph
from optim_plugins.layouts.options import TransformersJsOptions


@pytest.mark.slow
def test_node_opens_it_without_a_network_and_computes_the_same(deliver, npm, tmp_path, monkeypatch):
    monkeypatch.chdir(npm)
    report = deliver("transformers.js:dtype='q8'", tmp_path / "out")
    assert report.status == "opened", report.text
    assert report.text == "by @huggingface/transformers 4.3.1 in Node"
    assert report.samples > 0
    assert report.drift <= report.tolerance
    assert report.graph == "onnx/model_quantized.onnx"
    assert list((tmp_path / "out" / "onnx").iterdir()) == [tmp_path / "out" / report.graph]  # weights are inside
    assert json.loads((tmp_path / "out" / "config.json").read_text())["transformers.js_config"] == {"dtype": "q8"}


def test_without_the_package_it_is_written_and_marked(deliver, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPTIM_NPM_DIR", raising=False)
    report = deliver("transformers.js", tmp_path / "out")
    assert report.status == "not-opened"
    assert "npm package @huggingface/transformers is not" in report.text
    assert (tmp_path / "out" / "onnx" / "model.onnx").is_file()


def test_a_model_without_tokenizer_is_refused_unless_it_takes_no_text(hub_files, tmp_path):
    files = tmp_path / "files"
    shutil.copytree(hub_files, files, ignore=shutil.ignore_patterns("tokenizer.json"))
    assert "tokenizer" in TransformersJs().refuse(files, TransformersJsOptions())
    assert TransformersJs().refuse(files, TransformersJsOptions(without_tokenizer=True)) == ""
    assert "config.json" in TransformersJs().refuse(tmp_path, TransformersJsOptions())
    for text in ("[]", "{"):
        (files / "config.json").write_text(text)
        assert "config.json cannot be read" in TransformersJs().refuse(files, TransformersJsOptions())


@pytest.mark.parametrize(
    ("operator", "domain", "dtype", "expected"),
    [
        ("MatMul", "", np.float32, "fp32"),
        ("MatMul", "", np.float16, "fp16"),
        ("MatMulInteger", "", np.int8, "q8"),
        ("MatMulNBits", "com.microsoft", np.uint8, "q4"),
    ],
)
def test_the_suffix_is_that_of_what_the_graph_computes_with(tmp_path, operator, domain, dtype, expected):
    weight = onnx.numpy_helper.from_array(np.ones((4, 4), dtype), "w")
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 4]) for name in "xy"]
    graph = helper.make_graph([helper.make_node(operator, ["x", "w"], ["y"], domain=domain)], "g", ends[:1], ends[1:])
    graph.initializer.append(weight)
    onnx.save(helper.make_model(graph), tmp_path / "model.onnx")
    assert dtype_of_graph(tmp_path / "model.onnx") == expected
