"""``optim qnn share``: several models in one compiled file."""

from __future__ import annotations

import json

import numpy as np
import onnx_ir
import pytest
from onnx import helper
from qnn_models import QNN, apply, build, context, normal, on_htp

from optim import OptimError
from optim._engine.cli.main import main
from optim.onnx import external_files
from optim_qnn.compile import same_outputs
from optim_qnn.compile.context_binary import ContextBinary
from optim_qnn.quantize.quantize import Quantize

pytestmark = pytest.mark.slow

WIDTH = 256


def product(folder, rows: int):
    """Quantized x [rows, 256] times the same weights for any number of rows."""
    folder = folder / f"made{rows}"
    folder.mkdir()
    weights = {"w": normal(np.random.default_rng(0), WIDTH, WIDTH)}
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="product")
    model = build(folder, [node], {"x": [rows, WIDTH]}, {"y": [rows, WIDTH]}, weights)
    samples = [{"x": np.linspace(-3, 3, rows * WIDTH, dtype=np.float32).reshape(rows, WIDTH)}]
    return apply(Quantize, model, folder, samples).model, samples[0]


def written(model, path):
    onnx_ir.save(model.ir(), path, external_data=f"{path.stem}.data")
    return str(path)


@on_htp
def test_weights_that_models_share_lie_in_one_file_once(tmp_path, capfd):
    token, prompt = product(tmp_path, 1), product(tmp_path, 64)
    paths = [written(token[0], tmp_path / "token.onnx"), written(prompt[0], tmp_path / "prompt.onnx")]
    out = tmp_path / "out"
    assert main(["qnn", "share", *paths, "-o", str(out), "--json"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert found["files"] == {"token": "token.onnx", "prompt": "prompt.onnx"}
    assert sorted(path.name for path in out.iterdir()) == ["prompt.onnx", "shared.bin", "token.onnx"]
    alone = [apply(ContextBinary, model, tmp_path).model for model, _ in (token, prompt)]
    apart = sum((m.path.parent / external_files(m.path)[0]).stat().st_size for m in alone)
    assert (out / "shared.bin").stat().st_size < apart - 0.9 * WIDTH * WIDTH
    assert found["samples"] == 0  # the simulator loads no file of several graphs, and nothing else is claimed
    names = [onnx_ir.load(path).graph[0].attributes["partition_name"].as_string() for path in out.glob("*.onnx")]
    assert len(set(names)) == 2
    main(["qnn", "share", *paths, "-o", str(tmp_path / "again")])
    assert "optim ran nothing: the simulator" in capfd.readouterr().out


@on_htp
def test_what_cannot_be_shared_is_one_error_that_says_what_to_do(tmp_path, capfd):
    model, _ = product(tmp_path, 1)
    path = written(model, tmp_path / "one.onnx")
    compiled = apply(ContextBinary, model, tmp_path, embed=True).model
    done = written(compiled, tmp_path / "done.onnx")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    for arguments, reference, says in (
        ([path, "-o", str(tmp_path / "a")], "not-shared", "nothing to share"),
        ([path, path, "-o", str(tmp_path / "a")], "not-shared", "names of their own"),
        ([path, done, "-o", str(tmp_path / "a")], "not-shared", "compiled already"),
        ([path, done, "-o", str(tmp_path / "full")], "folder-not-empty", "is there already"),
        ([path, done, "-o", str(tmp_path / "a"), "--target", "cpu"], "not-qnn", "does not run on QNN"),
    ):
        assert main(["qnn", "share", *arguments]) == 2
        said = capfd.readouterr().err
        assert says in said
        assert f"error[{reference}]" in said
    assert not (tmp_path / "a").exists()


@on_htp
def test_a_graph_that_htp_does_not_take_is_not_shared_and_nothing_is_left(tmp_path, capfd):
    model, _ = product(tmp_path, 1)
    det = build(tmp_path, [helper.make_node("Det", ["x"], ["y"], name="det")], {"x": [1, 4, 4]}, {"y": [1]})
    paths = [written(model, tmp_path / "one.onnx"), written(det, tmp_path / "two.onnx")]
    arguments = ["qnn", "share", *paths, "-o", str(tmp_path / "a"), "--target", "qnn:soc=sm8650"]
    assert main(arguments) == 4
    assert "not-compiled" in capfd.readouterr().err
    assert not (tmp_path / "a").exists()


class Silent:
    def event(self, name):
        pass


@on_htp
def test_the_comparison_that_a_device_makes_finds_another_model(tmp_path):
    model, _ = product(tmp_path, 1)
    compiled = apply(ContextBinary, model, tmp_path).model
    request = same_outputs.Request((model,), (compiled.path,), QNN.plain, tmp_path)
    assert same_outputs.run(request, Silent()).samples == 2
    graph = model.ir()
    for value in graph.graph.initializers.values():
        if value.name == "w_quantized":
            value.const_value = onnx_ir.tensor(value.const_value.numpy()[::-1].copy(), name=value.name)
    other = context(tmp_path).save(graph, model)
    scratch = tmp_path / "again"
    with pytest.raises(OptimError, match="computes something else") as caught:
        same_outputs.run(same_outputs.Request((other,), (compiled.path,), QNN.plain, scratch), Silent())
    assert caught.value.reference == "other-outputs"
    assert "'y' differs by up to" in caught.value.cause
