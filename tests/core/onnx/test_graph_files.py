"""Graphs and weights in the store: weights are shared, names are digests, and what is delivered is deterministic."""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from feed_models import FLOAT, INT64, build, constant, value
from onnx import helper
from timed_models import WIDTH, network, without_group, write_network

from optim._engine.graphs.ingest import ingest
from optim.context import Context
from optim.model import Model, SessionConfig
from optim.onnx.data_files import file_digest
from optim.onnx.digests import model_digest
from optim.onnx.external_data import external_files, model_size_bytes
from optim.onnx.files import deliver_model, describe_model, is_whole, save_in_store
from optim.onnx.sessions import PLAIN_CPU


@pytest.fixture
def store(tmp_path):
    return tmp_path / "store"


@pytest.fixture
def model(tmp_path, store):
    return ingest(write_network(tmp_path / "source.onnx", {"a": 1}), store)


def adopt(path: Path, store: Path, like: Model) -> Model:
    context = Context(PLAIN_CPU, path.parent, store, 0, lambda: iter(()), logging.getLogger("optim.pass"), print)
    return context.adopt(path, like)


def names(folder: Path, suffix: str = "") -> set[str]:
    return {path.name for path in folder.iterdir() if path.name.endswith(suffix)}


def output_of(path: Path):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    shape = session.get_inputs()[0].shape
    return session.run(None, {"x": np.random.default_rng(0).standard_normal(shape).astype(np.float32)})[0]


def test_every_file_in_the_store_is_called_by_the_digest_of_its_bytes(store, model):
    for path in store.iterdir():
        assert path.stem == hashlib.sha256(path.read_bytes()).hexdigest() == file_digest(path)
    assert {path.suffix for path in store.iterdir()} == {".onnx", ".data"}
    assert model.digest == model.path.stem


def test_a_pass_that_writes_no_tensor_writes_a_graph_and_no_data(store, model):
    data = names(store, ".data")
    graph = model.ir()
    assert without_group(graph, "a") == 4
    shorter = save_in_store(graph, store)
    assert names(store, ".data") == data
    assert external_files(shorter.path) == external_files(model.path)
    assert shorter.path.stat().st_size < 100_000 < (store / data.pop()).stat().st_size
    assert np.array_equal(output_of(shorter.path), output_of(model.path))


def test_new_tensors_alone_are_in_the_new_data_file(store, model):
    before = names(store, ".data")
    graph = model.ir()
    weight = graph.graph.initializers["useful_0_weight"]
    doubled = weight.const_value.numpy() * 2
    weight.const_value = ir.tensor(doubled, name=weight.name)
    changed = save_in_store(graph, store)
    (new,) = names(store, ".data") - before
    assert (store / new).stat().st_size == doubled.nbytes
    assert set(external_files(changed.path)) == before | {new}
    assert not np.array_equal(output_of(changed.path), output_of(model.path))


def test_saving_what_is_there_already_changes_nothing(store, model):
    before = names(store)
    again = save_in_store(model.ir(), store)
    assert (again.digest, names(store)) == (model.digest, before)


def test_small_tensors_stay_in_the_graph(tmp_path, store):
    small, large = np.ones(8, np.float32), np.ones(512, np.float32)
    nodes = [helper.make_node("Concat", ["x", "small", "large"], ["y"], axis=0)]
    tables = [constant("small", small), constant("large", large)]
    onnx.save(build(nodes, [value("x", FLOAT, [4])], [value("y", FLOAT, None)], tables), tmp_path / "m.onnx")
    model = ingest(tmp_path / "m.onnx", store)
    (data,) = external_files(model.path)
    assert (store / data).stat().st_size == large.nbytes


def test_a_library_that_writes_everything_anew_costs_only_what_it_changed(tmp_path, store, model):
    proto = onnx.load(model.path)  # with its weights, as such libraries do
    proto.graph.doc_string = "rewritten"
    changed = next(tensor for tensor in proto.graph.initializer if tensor.name == "useful_1_weight")
    array = onnx.numpy_helper.to_array(changed) + 1
    changed.CopyFrom(onnx.numpy_helper.from_array(array, changed.name))
    onnx.save(proto, tmp_path / "whole.onnx")
    before = names(store, ".data")
    adopted = adopt(tmp_path / "whole.onnx", store, like=model)
    (new,) = names(store, ".data") - before
    assert (store / new).stat().st_size == array.nbytes
    assert set(external_files(adopted.path)) == before | {new}
    assert np.array_equal(output_of(adopted.path), output_of(tmp_path / "whole.onnx"))


def test_an_adopted_file_with_equal_weights_writes_no_data_under_other_names_too(tmp_path, store, model):
    proto = onnx.load(model.path)
    for node in proto.graph.node:
        node.input[:] = [f"renamed_{name}" if name.endswith("weight") else name for name in node.input]
    for tensor in proto.graph.initializer:
        tensor.name = f"renamed_{tensor.name}" if tensor.name.endswith("weight") else tensor.name
    onnx.save(proto, tmp_path / "whole.onnx", save_as_external_data=True, location="whole.data", size_threshold=0)
    before = names(store, ".data")
    adopted = adopt(tmp_path / "whole.onnx", store, like=model)
    assert names(store, ".data") == before
    assert np.array_equal(output_of(adopted.path), output_of(model.path))


def test_the_successor_keeps_session_settings(tmp_path, store, model):
    tuned = model.with_session(SessionConfig({"graph_optimization_level": "ORT_ENABLE_BASIC"}))
    onnx.save(network(), tmp_path / "library.onnx")
    assert adopt(tmp_path / "library.onnx", store, like=tuned).session == tuned.session


def test_the_successor_keeps_metadata_that_a_library_dropped(tmp_path, store):
    proto = network()
    onnx.save(proto, tmp_path / "library.onnx")
    onnx.helper.set_model_props(proto, {"character": "abc"})
    given = save_in_store(ir.serde.deserialize_model(proto), store)
    adopted = adopt(tmp_path / "library.onnx", store, like=given)
    assert adopted.ir_to_read().metadata_props["character"] == "abc"


# Digests.


def test_session_settings_are_part_of_a_models_digest_and_not_of_its_file(model):
    tuned = model.with_session(SessionConfig({"intra_op_num_threads": 1}))
    assert tuned.path == model.path
    assert tuned.digest != model.digest
    assert tuned.digest == model_digest(model.path, tuned.session)
    assert tuned.with_session(SessionConfig()).digest == tuned.digest


def test_the_order_of_settings_does_not_count(model):
    one = SessionConfig({"a": 1, "b": 2}, {"c": "3", "d": "4"}, ("y", "x"))
    other = SessionConfig({"b": 2, "a": 1}, {"d": "4", "c": "3"}, ("x", "y"))
    assert model.with_session(one).digest == model.with_session(other).digest


def test_outside_of_the_store_weights_count_for_the_digest(tmp_path):
    paths = []
    for name, seed in (("a", 0), ("b", 1)):
        folder = tmp_path / name
        folder.mkdir()
        onnx.save(network(seed=seed), folder / "m.onnx", save_as_external_data=True, location="m.data")
        paths.append(folder / "m.onnx")
    assert file_digest(paths[0]) == file_digest(paths[1])
    assert len({model_digest(path, SessionConfig()) for path in paths}) == 2


def test_the_same_model_from_two_files_is_one_model_in_the_store(tmp_path, store):
    inside = write_network(tmp_path / "inside.onnx")
    onnx.save(network(), tmp_path / "beside.onnx", save_as_external_data=True, location="beside.data")
    assert ingest(inside, store).digest == ingest(tmp_path / "beside.onnx", store).digest


# Delivery.


def test_delivery_is_deterministic_and_stands_on_its_own(tmp_path, store, model):
    graph = model.ir()
    without_group(graph, "a")
    shorter = save_in_store(graph, store)
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        assert deliver_model(shorter, folder) == [folder / "model.onnx", folder / "model.onnx.data"]
    for name in ("model.onnx", "model.onnx.data"):
        assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes()
    expected = output_of(shorter.path)
    for path in store.iterdir():
        path.unlink()
    assert np.array_equal(output_of(folders[0] / "model.onnx"), expected)
    onnx.checker.check_model(str(folders[0] / "model.onnx"), full_check=True)


def test_delivery_holds_the_weights_the_graph_uses_and_no_others(tmp_path, store, model):
    graph = model.ir()
    without_group(graph, "a")
    shorter = save_in_store(graph, store)
    graph_file, data_file = deliver_model(shorter, tmp_path / "out")
    assert data_file.stat().st_size == 2 * WIDTH * WIDTH * 4
    promised = model_size_bytes(shorter)
    assert graph_file.stat().st_size + data_file.stat().st_size == pytest.approx(promised, rel=0.01)
    assert promised < model_size_bytes(model)


def test_a_delivered_model_comes_back_into_the_store_as_itself(tmp_path, store, model):
    deliver_model(model, tmp_path / "out")
    assert describe_model(tmp_path / "out" / "model.onnx").inputs == model.inputs
    again = ingest(tmp_path / "out" / "model.onnx", store)
    assert np.array_equal(output_of(again.path), output_of(model.path))


def test_delivery_of_a_model_without_large_weights_is_one_file(tmp_path, store):
    nodes = [helper.make_node("Neg", ["x"], ["y"])]
    onnx.save(build(nodes, [value("x", FLOAT, [4])], [value("y", FLOAT, [4])]), tmp_path / "m.onnx")
    written = deliver_model(ingest(tmp_path / "m.onnx", store), tmp_path / "out")
    assert written == [tmp_path / "out" / "model.onnx"]


def test_a_tensor_that_two_initializers_share_is_written_once(tmp_path, store):
    array = np.random.default_rng(0).standard_normal(4096).astype(np.float32)
    nodes = [helper.make_node("Add", ["x", "a"], ["s"]), helper.make_node("Add", ["s", "b"], ["y"])]
    tables = [constant("a", array), constant("b", array)]
    onnx.save(build(nodes, [value("x", FLOAT, [4096])], [value("y", FLOAT, [4096])], tables), tmp_path / "m.onnx")
    model = ingest(tmp_path / "m.onnx", store)
    graph = model.ir()
    graph.graph.initializers["b"].const_value = graph.graph.initializers["a"].const_value
    shared = save_in_store(graph, store)
    for one_file in (True, False):
        _, data = deliver_model(shared, tmp_path / f"out{one_file}", one_file=one_file)
        assert data.stat().st_size == array.nbytes


def test_a_model_is_whole_only_with_all_of_its_data(store, model):
    assert is_whole(model.path)
    (store / external_files(model.path)[0]).unlink()
    assert not is_whole(model.path)
    assert not is_whole(store / "none.onnx")


def test_a_description_leaves_inputs_with_a_default_out(tmp_path):
    nodes = [helper.make_node("Gather", ["table", "at"], ["y"])]
    inputs = [value("at", INT64, ["n"]), value("table", FLOAT, [4, 2])]
    onnx.save(
        build(nodes, inputs, [value("y", FLOAT, ["n", 2])], [constant("table", np.ones((4, 2), np.float32))]),
        tmp_path / "m.onnx",
    )
    found = describe_model(tmp_path / "m.onnx")
    assert [(info.name, info.dtype, info.shape) for info in found.inputs] == [("at", "int64", ("n",))]
    assert [(info.name, info.dtype, info.shape) for info in found.outputs] == [("y", "float32", ("n", 2))]
    assert (found.opset, found.ir_version, found.session) == ({"": 17}, 9, SessionConfig())
