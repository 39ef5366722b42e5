"""A model file brought into the store: what it computes stays the same, wherever its weights lie."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from feed_models import FLOAT, INT64, build, constant, helper, value
from ingest_models import WEIGHT, external, linear, refused
from onnx import TensorProto

from optim._engine.graphs.ingest import ingest
from optim.onnx.skeleton import read_skeleton

LARGE_BYTES = (2 << 30) + (64 << 20)


def run(path: Path, **feeds):
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, feeds)


@pytest.fixture
def store(tmp_path):
    return tmp_path / "store"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.onnx"


def assert_computes_the_same(model):
    x = np.ones((2, 64), np.float32)
    np.testing.assert_allclose(run(model.path, x=x)[0], x @ WEIGHT, rtol=1e-5)


def test_embedded_weights_become_external_and_the_model_computes_the_same(path, store):
    onnx.save(linear(), path)
    before = path.read_bytes()
    model = ingest(path, store)
    assert_computes_the_same(model)
    (tensor,) = onnx.load(model.path, load_external_data=False).graph.initializer
    assert tensor.data_location == TensorProto.EXTERNAL
    assert sorted(file.suffix for file in store.iterdir()) == [".data", ".onnx"]
    assert path.read_bytes() == before


def test_the_same_file_gives_the_same_digest_however_its_weights_are_kept(tmp_path, path, store):
    onnx.save(linear(), path)
    typed = linear()
    tensor = typed.graph.initializer[0]
    tensor.float_data.extend(WEIGHT.ravel().tolist())
    tensor.ClearField("raw_data")
    onnx.save(typed, tmp_path / "typed.onnx")
    onnx.save(linear(), tmp_path / "ext.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    digests = {ingest(tmp_path / name, store).digest for name in ("model.onnx", "typed.onnx", "ext.onnx")}
    assert len(digests) == 1


def test_a_graph_without_a_name_is_taken_as_every_runtime_takes_it(path, store):
    unnamed = linear()
    unnamed.graph.name = ""
    onnx.save(unnamed, path)
    assert_computes_the_same(ingest(path, store))


def test_a_graph_that_points_into_a_safetensors_file(tmp_path, path, store):
    header = json.dumps({"w": {"dtype": "F32", "shape": [64, 32], "data_offsets": [0, WEIGHT.nbytes]}}).encode()
    container = struct.pack("<Q", len(header)) + header + WEIGHT.tobytes()
    (tmp_path / "model.safetensors").write_bytes(container)
    onnx.save(external("model.safetensors", offset=8 + len(header)), path)
    assert_computes_the_same(ingest(path, store))


def test_data_in_a_folder_below_and_without_a_length(tmp_path, path, store):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "w.bin").write_bytes(WEIGHT.tobytes())
    onnx.save(external("data/w.bin", length=None), path)
    assert_computes_the_same(ingest(path, store))


def test_hard_linked_data_is_read(tmp_path, path, store):
    (tmp_path / "w.bin").write_bytes(WEIGHT.tobytes())
    (tmp_path / "other.bin").hardlink_to(tmp_path / "w.bin")
    onnx.save(external("w.bin"), path)
    assert_computes_the_same(ingest(path, store))


def test_large_constants_become_initializers_in_subgraphs_too(path, store):
    def body(name, factor):
        nodes = [
            helper.make_node("Constant", [], [f"{name}_w"], value=constant("", WEIGHT * factor)),
            helper.make_node("MatMul", ["x", f"{name}_w"], [f"{name}_y"]),
        ]
        return helper.make_graph(nodes, name, [], [value(f"{name}_y", FLOAT, None)])

    nodes = [
        helper.make_node("Constant", [], ["small"], value=constant("", np.array(2.0, np.float32))),
        helper.make_node("If", ["go"], ["picked"], then_branch=body("yes", 1), else_branch=body("no", 2)),
        helper.make_node("Mul", ["picked", "small"], ["y"]),
    ]
    inputs = [value("go", TensorProto.BOOL, []), value("x", FLOAT, [1, 64])]
    onnx.save(build(nodes, inputs, [value("y", FLOAT, None)]), path)
    model = ingest(path, store)
    x = np.ones((1, 64), np.float32)
    for go, factor in ((True, 2), (False, 4)):
        np.testing.assert_allclose(run(model.path, go=np.array(go), x=x)[0], x @ WEIGHT * factor, rtol=1e-5)
    assert model.path.stat().st_size < 2000
    assert sum(file.stat().st_size for file in store.glob("*.data")) >= 2 * WEIGHT.nbytes


def test_a_large_constant_that_is_an_output_stays_in_the_graph(path, store):
    node = helper.make_node("Constant", [], ["y"], value=constant("", WEIGHT))
    onnx.save(build([node], [], [value("y", FLOAT, [64, 32])]), path)
    np.testing.assert_array_equal(run(ingest(path, store).path)[0], WEIGHT)


@pytest.mark.parametrize("indices", [[0, 33, 2047], [[0, 0], [1, 1], [63, 31]]])
def test_sparse_weights_become_dense(path, store, indices):
    model = linear()
    del model.graph.initializer[:]
    sparse = model.graph.sparse_initializer.add(dims=[64, 32])
    sparse.values.CopyFrom(constant("w", np.array([1, 2, 3], np.float32)))
    sparse.indices.CopyFrom(constant("places", np.array(indices)))
    onnx.save(model, path)
    x = np.ones((1, 64), np.float32)
    expected = np.zeros(32)
    expected[[0, 1, 31]] = 1, 2, 3
    np.testing.assert_array_equal(run(ingest(path, store).path, x=x)[0][0], expected)


def test_int4_weights_are_kept(path, store):
    weight = helper.make_tensor("w", TensorProto.INT4, [64, 64], np.ones(4096, np.int8).tolist())
    nodes = [helper.make_node("DequantizeLinear", ["w", "scale"], ["d"]), helper.make_node("MatMul", ["x", "d"], ["y"])]
    inputs, outputs = [value("x", FLOAT, [1, 64])], [value("y", FLOAT, [1, 64])]
    scale = constant("scale", np.array(0.5, np.float32))
    onnx.save(build(nodes, inputs, outputs, [weight, scale], opset=21, ir_version=10), path)
    assert run(ingest(path, store).path, x=np.ones((1, 64), np.float32))[0][0, 0] == 32


@pytest.mark.parametrize("kind", ["input", "no input", "node"])
def test_weights_of_ir_version_3_are_constants_whether_they_are_inputs_or_not(path, store, kind):
    old = linear()
    old.ir_version, old.opset_import[0].version = 3, 8
    if kind == "input":
        old.graph.input.append(value("w", FLOAT, WEIGHT.shape))
    if kind == "node":
        old.graph.node.insert(0, helper.make_node("Constant", [], ["w"], value=old.graph.initializer.pop()))
    onnx.save(old, path)

    model = ingest(path, store)

    onnx.checker.check_model(model.path)
    session = onnxruntime.InferenceSession(model.path, providers=["CPUExecutionProvider"])
    assert [given.name for given in session.get_inputs()] == ["x"]
    assert not session.get_overridable_initializers()
    assert_computes_the_same(model)


def test_what_a_file_says_wrongly_of_values_between_its_nodes_is_forgotten(path, store):
    nodes = [
        helper.make_node("Transpose", ["x"], ["turned"], perm=[1, 0]),
        helper.make_node("Relu", ["turned"], ["positive"]),
        helper.make_node("Abs", ["positive"], ["length"]),
        helper.make_node("Neg", ["length"], ["whole"]),
        helper.make_node("Neg", ["whole"], ["y"]),
    ]
    model = build(nodes, [value("x", FLOAT, ["n", 64])], [value("y", FLOAT, [64, "n"])])
    said = {"turned": [64, "n"], "positive": [32, "n"], "length": []}  # right, wrong by a size, wrong by its rank
    model.graph.value_info.extend(value(name, FLOAT, shape) for name, shape in said.items())
    model.graph.value_info.append(value("whole", INT64, [64, "n"]))
    onnx.save(model, path)

    kept = onnx.load(ingest(path, store).path).graph.value_info

    assert [value.name for value in kept] == ["turned"]


@pytest.mark.parametrize(("op_type", "opset"), [("SimplifiedLayerNormalization", 18), ("LayerNormalization", 14)])
@pytest.mark.parametrize("is_branch", [False, True])
def test_operators_that_onnxruntime_has_before_onnx_are_taken(path, store, op_type, opset, is_branch):
    """Optimizers of onnxruntime and builders of decoders write them into the standard domain."""
    node, result = helper.make_node(op_type, ["x", "w"], ["y"], name="norm", axis=-1), value("y", FLOAT, ["n", 64])
    if is_branch:
        both = [helper.make_graph([node], name, [], [result]) for name in ("then", "else")]
        node = helper.make_node("If", ["yes"], ["y"], then_branch=both[0], else_branch=both[1])
    weights = [constant("w", WEIGHT[:, 0]), constant("yes", np.array(True))]
    onnx.save(build([node], [value("x", FLOAT, ["n", 64])], [result], weights, opset=opset), path)
    feeds, answers = {"x": WEIGHT.T}, []
    for model in (path, ingest(path, store).path):
        session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
        answers.append(session.run(None, feeds)[0])
    np.testing.assert_array_equal(*answers)


def test_functions_of_the_model_are_kept(path, store):
    double = helper.make_function(
        "local", "Double", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])], [helper.make_opsetid("", 17)]
    )
    node = helper.make_node("Double", ["x"], ["y"], domain="local")
    proto = build([node], [value("x", FLOAT, [2])], [value("y", FLOAT, [2])], domains=("local",), functions=[double])
    onnx.save(proto, path)
    model = ingest(path, store)
    assert [function.name for function in onnx.load(model.path).functions] == ["Double"]
    assert run(model.path, x=np.ones(2, np.float32))[0].tolist() == [2, 2]


@pytest.mark.slow
def test_weights_inside_the_file_cost_no_memory(path, store):
    rows = 1 << 14
    table = TensorProto(name="w", dims=[rows, 1024], data_type=FLOAT, raw_data=bytes(rows * 4096))
    node = helper.make_node("Gather", ["w", "x"], ["y"])
    onnx.save(build([node], [value("x", INT64, [1])], [value("y", FLOAT, None)], [table]), path)
    code = (
        "import sys, pathlib, re\n"
        "from optim._engine.graphs.ingest import ingest\n"
        "peak = lambda: int(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1])\n"
        "before = peak(); ingest(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])); print(peak() - before)"
    )
    command = [sys.executable, "-c", code, str(path), str(store)]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert path.stat().st_size > 64 << 20
    assert int(answer.stdout) < 48 << 10, "kB beyond what the imports took; the weights are 64 MB"


@pytest.mark.large
@pytest.mark.skipif(shutil.disk_usage("/tmp").free < 8 << 30, reason="needs 8 GB of free disk")
@pytest.mark.faults  # it writes and reads as much as that: half a minute where memory is slow
def test_a_model_above_two_gigabytes(path, store):
    rows = LARGE_BYTES // 4096
    with (path.parent / "w.bin").open("wb") as stream:
        stream.truncate(rows * 4096)
        stream.seek((rows - 1) * 4096)
        stream.write(np.arange(1024, dtype=np.float32).tobytes())
    tensor = TensorProto(name="w", dims=[rows, 1024], data_type=FLOAT, data_location=TensorProto.EXTERNAL)
    for key, entry in (("location", "w.bin"), ("offset", "0"), ("length", str(rows * 4096))):
        tensor.external_data.add(key=key, value=entry)
    node = helper.make_node("Gather", ["w", "x"], ["y"])
    onnx.save(build([node], [value("x", INT64, [1])], [value("y", FLOAT, [1, 1024])], [tensor]), path)
    try:
        model = ingest(path, store)
        assert run(model.path, x=np.array([rows - 1]))[0][0, :4].tolist() == [0, 1, 2, 3]
    finally:
        shutil.rmtree(store)
        (path.parent / "w.bin").unlink()


@pytest.mark.parametrize("location", ["../w.bin", "sub/../../w.bin", "..\\w.bin", "C:\\w.bin", "ABSOLUTE"])
def test_external_data_outside_the_folder_is_refused(tmp_path, store, location):
    (tmp_path / "w.bin").write_bytes(WEIGHT.tobytes())
    folder = tmp_path / "folder"
    (folder / "sub").mkdir(parents=True)
    path = folder / "model.onnx"
    onnx.save(external(str(tmp_path / "w.bin") if location == "ABSOLUTE" else location), path)
    assert refused(path, store).reference == "external-data-outside"


def test_a_symbolic_link_out_of_the_folder_is_refused_and_one_inside_is_not(tmp_path, store):
    (tmp_path / "w.bin").write_bytes(WEIGHT.tobytes())
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "linked.bin").symlink_to(tmp_path / "w.bin")
    onnx.save(external("linked.bin"), folder / "model.onnx")
    error = refused(folder / "model.onnx", store)
    assert error.reference == "external-data-outside"
    assert "cp -rL" in error.fix
    shutil.copy(tmp_path / "w.bin", folder / "real.bin")
    (folder / "linked.bin").unlink()
    (folder / "linked.bin").symlink_to("real.bin")
    assert_computes_the_same(ingest(folder / "model.onnx", store))


def test_a_symbolic_link_to_the_model_itself_is_followed(tmp_path, path, store):
    (tmp_path / "blobs").mkdir()
    onnx.save(linear(), tmp_path / "blobs" / "abc")
    path.symlink_to("blobs/abc")
    assert_computes_the_same(ingest(path, store))


def test_the_skeleton_is_small_and_points_into_the_file(path):
    onnx.save(linear(), path)
    (tensor,) = read_skeleton(path).graph.initializer
    places = {entry.key: entry.value for entry in tensor.external_data}
    assert places["location"] == path.name
    offset = int(places["offset"])
    assert path.read_bytes()[offset : offset + int(places["length"])] == WEIGHT.tobytes()


def test_numbers_listed_in_attributes_are_kept_as_they_are(path):
    node = helper.make_node(
        "TreeEnsembleRegressor",
        ["x"],
        ["y"],
        domain="ai.onnx.ml",
        nodes_values=[0.5] * 999,
        nodes_featureids=[1 << 40, -1] * 999,
        nodes_modes=["LEAF"] * 999,
    )
    model = build([node], [value("x", FLOAT, [2, 3])], [value("y", FLOAT, [2, 1])])
    onnx.save(model, path)
    assert read_skeleton(path) == model


@pytest.mark.parametrize("name", ["?", "-1", "None", " "])
def test_dimensions_that_have_no_real_name_have_none(path, store, name):
    node = helper.make_node("Relu", ["x"], ["y"])
    shape = [name, 3, name, "width_2"]
    onnx.save(build([node], [value("x", FLOAT, shape)], [value("y", FLOAT, shape)]), path)
    model = ingest(path, store)
    assert model.inputs[0].shape == (None, 3, None, "width_2")
    assert model.outputs[0].shape == (None, 3, None, "width_2")
