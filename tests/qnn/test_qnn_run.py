"""Whole runs for HTP, as a user starts them, on the simulator."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnx_ir
import pytest
from onnx import TensorProto, helper
from qnn_models import BACKEND, QNN, images, on_htp, small_net

import optim
from optim import ExitStatus, OptimError
from optim._engine.cli.main import main
from optim_testing import models

pytestmark = pytest.mark.slow

NO_FLOAT16 = ("--without", "qnn.convert-float16")  # of a graph this small it is the smallest
ALL_ON_HTP = {"QNNExecutionProvider": 1.0}


@pytest.fixture
def cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("OPTIM_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def net(tmp_path):
    return small_net(tmp_path).path


@pytest.fixture
def data(tmp_path):
    """Four images: one is held out from calibration, and judged."""
    path = tmp_path / "calib.npz"
    np.savez(path, **{f"{i}/x": sample["x"] for i, sample in enumerate(images())})
    return path


@pytest.fixture
def sentences(tmp_path):
    rng, path = np.random.default_rng(0), tmp_path / "sentences.npz"
    rows = {f"{i}/input_ids": rng.integers(0, 50, (1, 16)) for i in range(3)}
    np.savez(path, **rows, **{f"{i}/attention_mask": np.ones((1, 16), np.int64) for i in range(3)})
    return path


def run(capfd, *arguments, status=0):
    assert main(["run", *map(str, arguments)]) == status
    return capfd.readouterr()


def report(folder):
    return json.loads((folder / "report.json").read_text())


def kept(found):
    return [step["pass"] for step in found["steps"] if step["status"] == "kept"]


@on_htp
def test_a_network_is_quantized_compiled_and_reloaded_with_all_nodes_on_htp(cache, net, data, tmp_path, capfd):
    out = tmp_path / "out"
    common = ("--target", "qnn", "--data", data, "--max-drift", "0.1", *NO_FLOAT16)
    text = run(capfd, net, *common, "--with", "qnn.quantize", "-o", out).out
    found = report(out)
    assert kept(found)[-2:] == ["qnn.quantize", "qnn.context-binary"]
    assert [step for step in found["steps"] if step["status"] == "failed"] == []
    assert found["result"]["executed_on"] == ALL_ON_HTP
    assert found["result"]["drift"]["relative_error"] < 0.1
    assert found["result"]["latency_ms"] is None
    assert "100.0 % of its nodes on QNNExecutionProvider" in found["reason"]
    assert "its time says nothing about a device" in text
    assert (out / "model.onnx.context.bin").is_file()
    feeds = images(1)[0]
    expected = onnx_run(net, feeds)
    (got,) = optim.load(out).run(None, feeds)
    assert np.linalg.norm(got - expected) < 0.1 * np.linalg.norm(expected)
    script = (
        f"import runpy, numpy as np; s = runpy.run_path({str(out / 'load.py')!r})['load']()\n"
        f"np.save({str(tmp_path / 'y.npy')!r}, s.run(None, dict(np.load({str(data)!r}), x=np.load({str(data)!r})"
        "['0/x']) and {'x': np.load(" + repr(str(data)) + ")['0/x']})[0])"
    )
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), got)


def onnx_run(path, feeds):
    import onnxruntime

    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, feeds)[0]


@on_htp
def test_eight_bits_that_break_the_budget_are_repaired_with_nodes_at_sixteen(cache, sentences, tmp_path, capfd):
    """The budget is a little below what 8 bits drift here, which depends on the kernels of the simulator."""
    model, out = models.encoder(tmp_path), tmp_path / "out"
    words = [model, "--target", "qnn", "--data", sentences, "--without", "qnn.context-binary", *NO_FLOAT16]
    words += [
        "--search-seconds",
        "300",
    ]  # a repair takes some seconds on the simulator, on a busy machine ten times that
    run(capfd, *words, "--max-drift", "1", "-o", tmp_path / "any")
    tried = [step for step in report(tmp_path / "any")["steps"] if step["pass"] == "qnn.quantize" and step["drift"]]
    budget = 0.95 * max(step["drift"]["relative_error"] for step in tried)
    run(capfd, *words, "--max-drift", str(budget), "-o", out)
    steps = [step for step in report(out)["steps"] if step["pass"] == "qnn.quantize"]
    (step,) = [step for step in steps if step["options"].get("keep")]
    assert step["status"] == "kept"
    assert "left at 16 bits" in step["notes"][0]
    assert report(out)["result"]["executed_on"] == ALL_ON_HTP


@on_htp
def test_a_fallback_that_was_admitted_is_in_the_report_with_the_share_of_nodes(cache, tmp_path, capfd):
    nodes = [
        helper.make_node("Relu", ["x"], ["r"], name="relu"),
        helper.make_node("Mul", ["r", "r"], ["m"], name="mul"),
        helper.make_node("Det", ["m"], ["y"], name="det"),
    ]
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "g", [info("x", TensorProto.FLOAT, [1, 4, 4])], [info("y", TensorProto.FLOAT, [1])]
    )
    model = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 18)]), model)
    common = (model, "--max-drift", "0.5", "--without", "qnn.quantize", "-o", tmp_path / "out")
    refused = run(capfd, *common, "--target", "qnn", "--without", "qnn.context-binary", status=4)
    assert "Det 'det'" in refused.out + refused.err
    run(capfd, *common, "--target", "qnn:fallback=cpu", "--without", "qnn.context-binary")
    found = report(tmp_path / "out")
    shares = found["result"]["executed_on"]
    assert shares == {"CPUExecutionProvider": 1 / 3, "QNNExecutionProvider": 2 / 3}
    assert any("fallback to the CPU is allowed" in note for note in found["notes"])
    assert json.loads((tmp_path / "out" / "session.json").read_text())["fallback"] is True


def test_without_qnn_models_are_prepared_and_the_report_says_that_nothing_ran_on_it(cache, net, data, tmp_path, capfd):
    out = tmp_path / "out"
    words = ("--target", "qnn-offline", "--data", data, "--with", "qnn.quantize", "--max-drift", "0.1", "-o", out)
    text = run(capfd, net, *words).out
    found = report(out)
    assert "qnn.quantize" in kept(found)
    assert "qnn.context-binary" not in kept(found)
    assert "nothing was run on QNN" in text
    kinds = {node.op_type for node in onnx_ir.load(out / "model.onnx").graph}
    assert "QuantizeLinear" in kinds
    assert {step["pass"] for step in found["steps"] if step["pass"].startswith("ort.")} <= {"ort.fix-shapes"}


def test_where_qnn_cannot_be_loaded_the_run_ends_and_nothing_runs_on_the_cpu(net, data, tmp_path):
    code = (
        "import sys\nfrom optim_qnn.htp import targets\ntargets._needed_files = lambda: ('libQnnNobodyHas.so',)\n"
        "from optim._engine.cli.main import main\nsys.exit(main(sys.argv[1:]))"
    )
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            code,
            "run",
            str(net),
            "--target",
            "qnn",
            "--data",
            str(data),
            "-o",
            str(tmp_path / "out"),
        ],
        capture_output=True,
        text=True,
        env={**os.environ, "OPTIM_CACHE_DIR": str(tmp_path / "c")},
        check=False,
    )
    assert done.returncode == 5
    assert "libQnnNobodyHas.so" in done.stderr
    assert not (tmp_path / "out").exists()


@on_htp
def test_a_dynamic_model_without_data_and_shapes_that_differ_are_errors(cache, tmp_path, capfd):
    model = models.encoder(tmp_path)
    said = run(capfd, model, "--target", "qnn", "-o", tmp_path / "out", status=2).err
    assert "none are given" in said
    assert '--with "qnn.preprocess:shapes={input_ids=[1, 128]}"' in said
    assert not (tmp_path / "out").exists()
    rng = np.random.default_rng(0)
    np.savez(
        tmp_path / "two.npz",
        **{
            f"{i}/{name}": rng.integers(0, 2, (1, 8 + 8 * i))
            for i in range(2)
            for name in ("input_ids", "attention_mask")
        },
    )
    found = run(capfd, model, "--target", "qnn", "--data", tmp_path / "two.npz", "-o", tmp_path / "out", status=4)
    assert "several shapes" in found.out + found.err


@on_htp
def test_an_unknown_chip_is_an_error_before_anything_is_read(net, tmp_path, capfd):
    found = run(capfd, net, "--target", "qnn:soc=snapdragon", "-o", tmp_path / "out", status=2)
    assert "unknown-soc" in found.err
    assert not Path(tmp_path / "out").exists()


@on_htp
def test_a_library_that_does_not_load_is_an_error_and_no_run_on_the_cpu(tmp_path):
    target = replace(QNN.plain, provider_options={"backend_path": "libQnnNobodyHas.so"})
    with pytest.raises(OptimError) as caught:
        BACKEND.open(small_net(tmp_path), target)
    assert (caught.value.reference, caught.value.status) == ("provider-missing", ExitStatus.TARGET_UNAVAILABLE)
    assert "libQnnNobodyHas.so: cannot open shared object file" in caught.value.cause
