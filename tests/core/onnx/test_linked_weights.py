"""Graphs of the store that point into files of the user's: read in place, and never written, moved or deleted."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from optim._engine.search.restore import restore
from optim._engine.store import Store
from optim.errors import OptimError
from optim.model import Model, SessionConfig
from optim.onnx.data_files import file_digest
from optim.onnx.external_data import external_files, is_linked, link, openable_file
from optim.onnx.files import (
    deliver_linked,
    deliver_model,
    discard_measured,
    is_whole,
    read_ir,
    read_like,
    save_for_measuring,
    save_in_store,
)
from optim.onnx.sessions import open_session

WEIGHTS = np.arange(2048, dtype=np.float32)
OWN = np.full(2048, 0.5, np.float32)


@pytest.fixture
def user_file(tmp_path: Path) -> Path:
    path = tmp_path / "user" / "weights.bin"
    path.parent.mkdir()
    path.write_bytes(b"\0" * 64 + WEIGHTS.tobytes())
    return path


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "cache")


@pytest.fixture
def model(user_file: Path, store: Store) -> Model:
    """y = x + weights + own, the first of them linked."""
    shape = ir.Shape([2048])
    x = ir.Value(name="x", shape=ir.Shape(["n"]), type=ir.TensorType(ir.DataType.FLOAT))
    linked = link(user_file, 64, WEIGHTS.nbytes, ir.DataType.FLOAT, shape, "weights")
    weights = ir.Value(name="weights", shape=shape, type=ir.TensorType(ir.DataType.FLOAT), const_value=linked)
    own = ir.Value(
        name="own", shape=shape, type=ir.TensorType(ir.DataType.FLOAT), const_value=ir.Tensor(OWN, name="own")
    )
    first = ir.Node("", "Add", [x, weights])
    second = ir.Node("", "Add", [first.outputs[0], own])
    y = second.outputs[0]
    y.name, y.shape, y.type = "y", ir.Shape(["n"]), ir.TensorType(ir.DataType.FLOAT)
    graph = ir.Graph([x], [y], nodes=[first, second], initializers=[weights, own], opset_imports={"": 20}, name="g")
    return save_in_store(ir.Model(graph, ir_version=10), store.models)


def result(model: Model) -> np.ndarray:
    session = open_session(model.path, SessionConfig())
    answer: np.ndarray = session.run(None, {"x": np.zeros(2048, np.float32)})[0]
    return answer


def test_a_linked_weight_is_read_where_it_is(model: Model, store: Store, user_file: Path) -> None:
    assert np.array_equal(result(model), WEIGHTS + OWN)
    assert sum(path.stat().st_size for path in store.models.glob("*.data")) == OWN.nbytes
    graph = read_ir(model.path)
    assert is_linked(graph.graph.initializers["weights"].const_value)
    assert not is_linked(graph.graph.initializers["own"].const_value)
    assert np.array_equal(graph.graph.initializers["weights"].const_value.numpy(), WEIGHTS)  # type: ignore[union-attr]
    assert user_file.stat().st_nlink == 1


def test_what_opens_it_for_another_reader_lies_where_the_next_run_clears_up(
    model: Model, store: Store, user_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(user_file))  # a file: nothing can be made in it
    with openable_file(model.path) as path:
        assert path.is_relative_to(*store.root.glob("scratch-*"))
        values = onnx.load(path, load_external_data=False).graph.initializer
        assert (path.parent / values[0].external_data[0].value).samefile(user_file)
    assert not list(store.root.glob("scratch-*"))
    with openable_file(user_file) as path:
        assert path == user_file and not list(store.root.glob("scratch-*"))


def test_it_stays_linked_when_a_pass_writes_the_graph_anew(model: Model, store: Store) -> None:
    graph = model.ir()
    graph.doc_string = "changed"
    again = save_in_store(graph, store.models)
    assert again.path != model.path
    assert np.array_equal(result(again), WEIGHTS + OWN)
    assert external_files(again.path) == external_files(model.path)


def test_a_model_saved_for_measuring_reads_linked_weights_too(model: Model, store: Store, user_file: Path) -> None:
    graph = model.ir()
    graph.graph[1].inputs[1].const_value = ir.Tensor(OWN + 1, name="own")  # type: ignore[union-attr]
    measured = save_for_measuring(graph, store.models)
    assert np.array_equal(result(measured), WEIGHTS + OWN + 1)
    assert is_linked(graph.graph.initializers["weights"].const_value)
    assert is_linked(read_ir(measured.path).graph.initializers["weights"].const_value)
    discard_measured(measured)
    assert not list(store.models.glob(".*")) and user_file.is_file()


def test_delivering_copies_what_the_graph_uses(model: Model, tmp_path: Path, user_file: Path) -> None:
    deliver_model(model, tmp_path / "out")
    user_file.unlink()
    found = onnx.load(tmp_path / "out" / "model.onnx")
    arrays = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in found.graph.initializer}
    assert np.array_equal(arrays["weights"], WEIGHTS) and np.array_equal(arrays["own"], OWN)


def test_delivering_beside_the_weights_copies_only_the_rest(model: Model, user_file: Path) -> None:
    deliver_linked(model, user_file.parent, name="model.onnx")
    assert (user_file.parent / "model.onnx.data").stat().st_size == OWN.nbytes
    proto = onnx.load(user_file.parent / "model.onnx", load_external_data=False)
    places = {t.name: {e.key: e.value for e in t.external_data}["location"] for t in proto.graph.initializer}
    assert places == {"weights": "weights.bin", "own": "model.onnx.data"}
    onnx.checker.check_model(user_file.parent / "model.onnx")


def test_the_user_s_file_outlives_everything_the_store_deletes(model: Model, store: Store, user_file: Path) -> None:
    before = file_digest(user_file)
    assert is_whole(model.path)
    model.path.write_bytes(b"damaged")
    copy = store.root / "copy.onnx"

    def again() -> Path:
        shutil.copy(copy, model.path)
        return model.path

    copy.write_bytes(b"also damaged")
    with pytest.raises(Exception, match="store-damaged"):
        restore(model.path, again, store)
    with store.in_use():
        store.keep_only(set(store.models.iterdir()), set())
    assert file_digest(user_file) == before


def test_a_graph_whose_weights_are_gone_is_not_whole(model: Model, user_file: Path) -> None:
    user_file.unlink()
    assert not is_whole(model.path)


def test_weights_on_another_drive_than_the_cache_are_refused_with_the_way_out(model: Model, monkeypatch) -> None:
    """As Windows has it: no path leads from one drive to another."""

    def relpath(path: object, start: object) -> str:
        raise ValueError("path is on mount 'D:', start on mount 'C:'")

    monkeypatch.setattr("os.path.relpath", relpath)
    with pytest.raises(OptimError) as caught:
        open_session(model.path, model.session)
    assert caught.value.reference == "weights-on-another-drive"
    assert "OPTIM_CACHE_DIR" in caught.value.fix


def test_it_stays_linked_when_a_library_wrote_the_graph_with_all_weights(model: Model, tmp_path: Path) -> None:
    deliver_model(model, tmp_path / "library")
    adopted = read_like(tmp_path / "library" / "model.onnx", model)
    assert is_linked(adopted.graph.initializers["weights"].const_value)
