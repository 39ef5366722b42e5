"""A run for OpenVINO, and what it refuses."""

from __future__ import annotations

import importlib.metadata
import json
import runpy
from dataclasses import replace

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import optim
from optim import ExitStatus, OptimError
from optim._engine.cli.main import main
from optim.onnx import describe_model
from optim.onnx.external_data import PREFIX, locations
from optim_openvino.quantize import float_graph, nncf_library
from optim_openvino.quantize.compress_weights import CompressWeights, _with_few_bits
from optim_openvino.quantize.quantize import Quantize
from optim_openvino.runtime import installed, quiet_import
from optim_openvino.runtime.backend import OpenVinoBackend
from optim_openvino.runtime.core import core
from optim_openvino.runtime.properties import MODEL_CACHE, as_session
from optim_openvino.runtime.refusals import refused
from optim_openvino.runtime.targets import TARGET
from optim_testing import Trial, models

pytestmark = pytest.mark.usefixtures("jobs_here")


@pytest.mark.slow
def test_the_report_says_what_computed_the_result_and_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv("OPTIM_CACHE_DIR", str(tmp_path / "cache"))
    report = optim.run(models.mlp(tmp_path), tmp_path / "out", target="openvino", search_seconds=1, stages=["tune"])
    version = importlib.metadata.version("openvino")
    assert report.result.requirements == (f"openvino=={version}",)
    products = [row for row in report.result.kernels if row.operator == "FullyConnected"]
    assert sum(row.nodes for row in products) == 2
    assert {row.precision for row in products} == {"f32"}
    assert "Transpose" not in {row.operator for row in report.result.kernels}, "weights are laid out once, not in a run"
    page = (tmp_path / "out" / "report.html").read_text()
    assert f"pip install openvino=={version}" in page
    assert "import openvino" in page
    assert f"`pip install openvino=={version}`" in (tmp_path / "out" / "README.md").read_text()
    assert "import onnxruntime" not in page
    assert json.loads((tmp_path / "out" / "session.json").read_text())["package"] == "optim-plugin-openvino"


@pytest.mark.parametrize(
    ("found", "said"), [("", "not installed"), ("2025.4.0", "OpenVINO 2025.4.0 is too old"), ("2026.3.9", "is too old")]
)
def test_openvino_that_is_missing_or_too_old_is_listed_with_the_way_out(monkeypatch, found, said):
    monkeypatch.setattr(installed, "version", lambda: found)
    reason = TARGET.unavailable()
    assert said in reason
    assert "pip install 'openvino>=2026.4'" in reason


@pytest.mark.usefixtures("counted_clock")
def test_beside_a_runtime_that_is_missing_the_others_go_on(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(installed, "version", lambda: "2025.4.0")
    path, asked = models.mlp(tmp_path), {"stages": ["tune"], "search_seconds": 5}
    report = optim.run(path, tmp_path / "out", target="cpu,openvino", **asked)
    assert report.target == "cpu"
    (note,) = [note for note in report.notes if "openvino" in note.lower()]
    assert "OpenVINO 2025.4.0 is too old" in note and "pip install" in note
    assert main(["run", str(path), "--target", "openvino", "-o", str(tmp_path / "o")]) == ExitStatus.TARGET_UNAVAILABLE
    assert "is too old" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.usefixtures("counted_clock")
def test_points_of_both_runtimes_are_picked_each_with_its_own_load_py(tmp_path, monkeypatch):
    """By a clock that counts nodes both runtimes are as fast; opened, run and delivered they are real."""
    monkeypatch.setenv("OPTIM_CACHE_DIR", str(tmp_path / "cache"))
    path, out = foldable(tmp_path), tmp_path / "out"
    asked = {"passes": ["ort.clean"], "stages": ["fuse"], "search_seconds": 20}  # named, it is a change on cpu too
    run = optim.run(path, out, target="cpu,openvino", **asked)
    front = {point.number: point.target for point in run.points if point.number}
    assert set(front.values()) == {"cpu", "openvino"}
    feeds = {"x": np.ones((2, 32), np.float32)}
    expected = onnxruntime.InferenceSession(str(path)).run(None, feeds)[0]
    for number, target in front.items():
        folder = tmp_path / f"point{number}"
        asked = ["pick", str(out), str(number), "-o", str(folder), "--json"]
        assert main(asked) == ExitStatus.DELIVERED
        report = json.loads((folder / "report.json").read_text())
        runtime = "openvino" if target == "openvino" else "onnxruntime"
        assert report["target"] == target
        assert [one.partition("==")[0] for one in report["result"]["requirements"]] == [runtime]
        script = (folder / "load.py").read_text()
        assert f"import {runtime}" in script and f"pip install {runtime}" in (folder / "report.html").read_text()
        session = runpy.run_path(str(folder / "load.py"))["load"]()
        assert np.allclose(session.run(["y"], feeds)[0], expected, atol=1e-5)


def foldable(folder):
    """A product with what two constants give: a node that need not be computed in each run."""
    random = np.random.default_rng(0)
    weights = [onnx.numpy_helper.from_array(random.standard_normal((32, 32)).astype(np.float32), name) for name in "ab"]
    nodes = [helper.make_node("MatMul", ["a", "b"], ["w"]), helper.make_node("MatMul", ["x", "w"], ["y"])]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 32]) for name in "xy"]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], weights)
    path = folder / "foldable.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.mark.parametrize("device", ["GPU", "NPU", "GPU.1"])
def test_a_device_that_is_not_here_ends_with_status_5_and_the_reason(tmp_path, monkeypatch, capsys, device):
    monkeypatch.setattr(installed, "_DEVICE_NODES", {kind: (str(tmp_path), "none*") for kind in ("GPU", "NPU")})
    monkeypatch.setattr(installed.sys, "platform", "linux")
    path = models.mlp(tmp_path)
    assert main(["bench", str(path), "--target", f"openvino:device={device}"]) == ExitStatus.TARGET_UNAVAILABLE
    assert f"this machine shows no {device.partition('.')[0]}" in capsys.readouterr().err


def test_a_device_that_takes_fixed_sizes_alone_is_refused_with_the_input_and_the_pass_that_fixes_them(tmp_path):
    """No such device is here; the words are OpenVINO's own, of a shape that it wants fixed."""
    model = describe_model(models.mlp(tmp_path))
    with pytest.raises(RuntimeError) as said:
        core().read_model(str(model.path)).input(0).get_partial_shape().to_shape()
    found = refused(model, "NPU", said.value)
    assert found.reference == "openvino-dynamic" and found.what == "OpenVINO's NPU refuses mlp.onnx"
    assert "input 'x'" in found.cause and "dynamic shape" in found.cause and "partial_shape.cpp" not in found.cause
    assert "ort.fix-shapes" in found.fix


@pytest.mark.parametrize("device", ["GPU", "NPU"])
def test_a_device_whose_driver_is_there_and_that_openvino_does_not_find_is_refused(tmp_path, device):
    if any(one.startswith(device) for one in core().available_devices):
        pytest.skip(f"this machine has an Intel {device}")
    with pytest.raises(OptimError, match="openvino-device") as caught:
        OpenVinoBackend().open(describe_model(models.mlp(tmp_path)), TARGET.configure({"device": device}))
    assert caught.value.status is ExitStatus.TARGET_UNAVAILABLE and device in caught.value.what


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        ('Device with "CPU" name is not registered in the OpenVINO Runtime', "not registered"),
        ('Unable to read the model: "a/onnx .onnx"\nAvailable frontends: jax paddle ir', "Available frontends: jax"),
    ],
)
def test_an_openvino_that_lacks_a_library_is_damaged(tmp_path, said, cause):
    """In OpenVINO's own words, seen where its library of the processor and the one that reads ONNX were moved away."""
    found = refused(describe_model(models.mlp(tmp_path)), "CPU", RuntimeError(said))
    assert (found.reference, found.status) == ("openvino-damaged", ExitStatus.TARGET_UNAVAILABLE)
    assert cause in found.cause and "--force-reinstall" in found.fix
    whole = RuntimeError('Unable to read the model: "a"\nAvailable frontends: ir onnx')
    assert refused(describe_model(models.mlp(tmp_path)), "CPU", whole).reference == "openvino-refused"


def test_an_openvino_that_cannot_be_imported_is_damaged(tmp_path, monkeypatch):
    monkeypatch.setattr(quiet_import, "quiet_openvino", lambda: object())
    core.cache_clear()
    with pytest.raises(OptimError, match="openvino-damaged") as caught:
        OpenVinoBackend().open(describe_model(models.mlp(tmp_path)), TARGET)
    assert "Core" in caught.value.cause


@pytest.mark.parametrize("setting", ["device=TPU", "threads=0", "streams=two", "cores=4"])
def test_a_setting_that_nobody_knows_is_refused(setting):
    key, _, value = setting.partition("=")
    with pytest.raises(OptimError) as caught:
        TARGET.configure({key: value})
    assert caught.value.status is ExitStatus.USAGE
    assert key in caught.value.what


def test_an_operator_that_it_does_not_have_is_named(tmp_path):
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])
    graph = helper.make_graph(
        [helper.make_node("Bernoulli", ["x"], ["y"])], "g", [value], [helper.make_tensor_value_info("y", 1, [2])]
    )
    onnx.save(
        helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "model.onnx"
    )
    with pytest.raises(OptimError, match="openvino-operator") as caught:
        OpenVinoBackend().open(describe_model(tmp_path / "model.onnx"), TARGET)
    assert "it does not have Bernoulli of opset 17" in caught.value.cause


def test_an_operator_that_it_has_in_another_form_is_named_with_its_own_words(tmp_path):
    """A convolution of what has any number of dimensions, as behind an If of voice models."""
    ends = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])]
    ends += [helper.make_tensor_value_info("sizes", TensorProto.INT64, ["rank"])]
    nodes = [helper.make_node("Reshape", ["x", "sizes"], ["r"]), helper.make_node("Conv", ["r", "w"], ["y"])]
    weight = onnx.numpy_helper.from_array(np.ones((1, 1, 3), np.float32), "w")
    made = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "g", ends, made, [weight])
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "any.onnx"
    )
    with pytest.raises(OptimError, match="openvino-operator") as caught:
        OpenVinoBackend().open(describe_model(tmp_path / "any.onnx"), TARGET)
    assert "Conv" in caught.value.cause and "rank has to be known" in caught.value.cause


def test_feeds_that_do_not_fit_are_refused_in_openvinos_words_without_its_places(tmp_path):
    with OpenVinoBackend().open(describe_model(models.mlp(tmp_path)), TARGET) as session:
        with pytest.raises(OptimError, match="openvino-run") as caught:
            session.run({"x": np.ones((2, 31), np.float32)})
        assert "31" in caught.value.cause
        assert ".cpp" not in caught.value.cause
        with pytest.raises(OptimError, match="feeds-missing-input") as caught:
            session.run({"of nobody": np.ones((2, 32), np.float32)})
        assert "'x'" in caught.value.cause


def test_without_nncf_its_passes_say_so(tmp_path, monkeypatch):
    monkeypatch.setattr(nncf_library, "missing", lambda: f"NNCF is not installed: {nncf_library.INSTALL}")
    applicable = Quantize().applicable(describe_model(models.encoder(tmp_path)), TARGET)
    assert not applicable.yes
    assert "nncf>=3.4" in applicable.reason


def test_nncf_has_shapes_inferred_without_weights(tmp_path):
    graph = onnx.load(wide_mlp(tmp_path))
    of_onnx = onnx.shape_inference.infer_shapes
    expected = of_onnx(graph)
    with nncf_library.quiet_nncf():
        found = onnx.shape_inference.infer_shapes(graph)
    assert found == expected and len(found.graph.value_info) == 2
    assert onnx.shape_inference.infer_shapes is of_onnx
    light = nncf_library._without_weights(graph)
    assert light.ByteSize() < 1000 < graph.ByteSize()
    del found.graph.value_info[:]
    assert of_onnx(light).graph.value_info == expected.graph.value_info


@pytest.mark.slow
def test_weights_in_four_bits_run_also_where_onnx_itself_has_none(tmp_path, monkeypatch):
    monkeypatch.setenv("OPTIM_CACHE_DIR", str(tmp_path / "cache"))
    passes = {"openvino.compress-weights": {"mode": "int4-sym", "group_size": 32, "scale_estimation": True}}
    asked = {"target": "openvino", "stages": ["quantize"], "search_seconds": 60, "max_drift": 0.5, "goal": "size"}
    path = wide_mlp(tmp_path)
    report = optim.run(path, tmp_path / "out", passes=passes, **asked)
    assert report.status == "improved" and 0 < report.result.drift.relative_error < 0.3
    assert {node.op_type for node in onnx.load(tmp_path / "out" / "model.onnx").graph.node} >= {"MatMulNBits"}
    passes["openvino.compress-weights"] = {"mode": "int4-asym", "group_size": 32}
    report = optim.run(path, tmp_path / "asym", passes=passes, **asked)
    assert report.status == "improved" and 0 < report.result.drift.relative_error < 0.3
    made = onnx.load(tmp_path / "asym" / "model.onnx")
    assert {node.op_type for node in made.graph.node} >= {"DequantizeLinear"} and made.opset_import[0].version == 21


@pytest.mark.parametrize("mode", ["int4-sym", "int4-asym"])
def test_gptq_makes_up_for_what_rounding_loses(tmp_path, mode):
    """On inputs of a few directions, which leave much freedom; a Gemm transposes one of the weights."""
    path = wide_mlp(tmp_path)
    graph = onnx.load(path)
    graph.graph.node[1].op_type = "Gemm"
    graph.graph.node[1].attribute.append(helper.make_attribute("transB", 1))
    onnx.save(graph, path)
    random = np.random.default_rng(1)
    directions = random.standard_normal((128, 128)) * np.geomspace(1, 0.01, 128)
    np.savez(tmp_path / "data.npz", x0=(random.standard_normal((256, 128)) @ directions).astype(np.float32))
    trial = Trial.of(path, tmp_path / "trial", TARGET, OpenVinoBackend(), data=f"{tmp_path / 'data.npz'}")

    def drift(**options):
        asked = {"mode": mode, "group_size": 32, "all_layers": True, **options}
        made = trial.apply_watched(CompressWeights(), trial.options(CompressWeights, asked))
        assert made.changed and made.notes == ()
        return trial.drift(made).relative_error

    assert drift(gptq=True) < 0.8 * drift()


def test_a_graph_that_cannot_be_converted_has_no_zero_points_in_four_bits(tmp_path):
    path = wide_mlp(tmp_path)
    graph = onnx.load(path)
    graph.graph.node.append(helper.make_node("NoOperator", ["x3"], ["x4"]))
    with pytest.raises(OptimError, match="openvino-zero-points"):
        _with_few_bits(graph, describe_model(path))


def test_weights_that_a_node_transposes_are_compressed_too(tmp_path):
    path = wide_mlp(tmp_path)
    graph = onnx.load(path)
    graph.graph.node.insert(0, helper.make_node("Transpose", ["w1"], ["w1_t"], perm=[1, 0]))
    graph.graph.node[2].input[1] = "w1_t"
    onnx.save(graph, path)
    model = describe_model(path)
    assert float_graph.weighted(model, ("MatMul",)) == ["m0", "m1", "m2"]
    read = float_graph.read(model, ())
    assert [node.op_type for node in read.graph.node] == ["MatMul"] * 3
    weights = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in read.graph.initializer}
    assert sorted(weights) == ["w0", "w1_t", "w2"]
    assert np.array_equal(weights["w1_t"], onnx.numpy_helper.to_array(graph.graph.initializer[1]).T)


def test_numbers_are_rounded_before_they_are_moved_so_that_products_write_integers(tmp_path):
    random, ends = np.random.default_rng(0), []
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], name="first"),
        helper.make_node("Reshape", ["a", "heads"], ["b"]),
        helper.make_node("Transpose", ["b"], ["c"], perm=[0, 2, 1, 3]),
        helper.make_node("Transpose", ["b"], ["d"], perm=[0, 2, 3, 1]),
        helper.make_node("MatMul", ["c", "d"], ["y"], name="second"),
    ]
    for name, shape in (("x", [2, 16, 32]), ("y", [2, 4, 16, 16])):
        ends.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
    weights = {"w": random.standard_normal((32, 32)).astype(np.float32), "heads": np.array([2, 16, 4, 8])}
    constants = [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], constants)
    path = tmp_path / "heads.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    trial = Trial.of(path, tmp_path / "trial", TARGET, OpenVinoBackend())
    made = onnx.load(trial.apply_watched(Quantize(), trial.options(Quantize, {})).model.path).graph
    giver = {name: node for node in made.node for name in node.output}
    (moved,) = (node for node in made.node if node.op_type == "Reshape")
    assert giver[moved.input[0]].op_type == "DequantizeLinear"


def wide_mlp(folder):
    """Opset 20: two products of 128 by 128, whose first and last layers NNCF leaves in 8 bits, and one between."""
    random = np.random.default_rng(0)
    nodes, weights = [], []
    for number in range(3):
        weight = (random.standard_normal((128, 128)) / 11).astype(np.float32)
        weights.append(onnx.numpy_helper.from_array(weight, f"w{number}"))
        nodes.append(helper.make_node("MatMul", [f"x{number}", f"w{number}"], [f"x{number + 1}"], name=f"m{number}"))
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 128]) for name in ("x0", "x3")]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], weights)
    path = folder / "wide.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)
    return path


@pytest.mark.parametrize("other", [None, b"2025.0"])
def test_a_model_cache_is_used_again_and_what_is_damaged_or_of_another_version_is_made_anew(
    tmp_path, monkeypatch, other
):
    """The key of a file has no version in it: two versions of OpenVINO look for the same one."""
    monkeypatch.setenv("OPTIM_CACHE_DIR", str(tmp_path / "cache"))
    model = describe_model(models.mlp(tmp_path), session=as_session({MODEL_CACHE: "YES"}))
    feeds, version = {"x": np.ones((2, 32), np.float32)}, core().get_versions("CPU")["CPU"].build_number.encode()

    def opened():
        with OpenVinoBackend().open(model, TARGET) as session:
            return session.run(feeds)["y"], session._compiled.get_property("LOADED_FROM_CACHE")

    expected, _ = opened()
    assert opened()[1]
    [blob] = (tmp_path / "cache" / "openvino").glob("*.blob")
    made = blob.read_bytes()
    assert version in made
    changed = made.replace(version, version.replace(version[:6], other)) if other else made[: len(made) // 2]
    blob.write_bytes(changed)
    found, from_cache = opened()
    assert np.array_equal(found, expected) and not from_cache
    assert [version in file.read_bytes() for file in blob.parent.glob("*.blob")] == [True]
    assert opened()[1]


def test_a_profile_says_how_long_each_node_takes(tmp_path):
    model = describe_model(models.mlp(tmp_path))
    found = OpenVinoBackend().profile(model, TARGET, {"x": np.ones((4096, 32), np.float32)}, 0.01)
    assert [node.operator for node in found.nodes].count("FullyConnected") == 2
    assert found.run_s > 0
    assert all(node.seconds >= 0 for node in found.nodes)


def test_weights_in_the_users_own_files_are_read_where_they_are(tmp_path):
    plain = models.mlp(tmp_path)
    (tmp_path / "theirs").mkdir()
    (tmp_path / "store").mkdir()
    onnx.save(
        onnx.load(plain), tmp_path / "theirs" / "m.onnx", save_as_external_data=True, location="w", size_threshold=0
    )
    graph = onnx.load(tmp_path / "theirs" / "m.onnx", load_external_data=False)
    for entry in locations(graph):
        entry.value = f"{PREFIX}{tmp_path / 'theirs' / 'w'}"
    linked = tmp_path / "store" / f"{'0' * 64}.onnx"
    onnx.save(graph, linked)
    feeds = {"x": np.ones((2, 32), np.float32)}
    info = describe_model(plain)
    with (
        OpenVinoBackend().open(info, TARGET) as expected,
        OpenVinoBackend().open(replace(info, path=linked), TARGET) as found,
    ):
        assert np.array_equal(found.run(feeds)["y"], expected.run(feeds)["y"])
