"""Packed weights: the same answers, mapped from disk, of this machine and this onnxruntime alone."""

from __future__ import annotations

import importlib.util
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import optim
from optim._engine import machine
from optim._engine.backends.held import held_backend
from optim._engine.backends.packed import _pack
from optim._engine.plugins.registry import load_registry
from optim._engine.runs.session_file import SessionFile, write_session_files
from optim.errors import OptimError
from optim.model import PACKED_WEIGHTS, SessionConfig
from optim.onnx.files import describe_model
from optim.target import Target

CPU = Target("cpu", "ort", "CPUExecutionProvider")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run folder with a product of 128 by 128."""
    monkeypatch.setenv("OPTIM_CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / "run"
    path.mkdir()
    save(path, seed=0)
    write_session_files(path, SessionFile.of(SessionConfig({"intra_op_num_threads": 1}), CPU))
    return path


def save(path: Path, *, seed: int) -> None:
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 128]) for name in "xy"]
    weight = np.random.default_rng(seed).standard_normal((128, 128)).astype(np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Relu", ["m"], ["y"])]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [numpy_helper.from_array(weight, "w")])
    onnx.save(
        helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 18)]),
        path / "model.onnx",
        save_as_external_data=True,
        location="model.onnx.data",
    )


def answer(session: Any) -> Any:
    return session.run(None, {"x": np.linspace(-1, 1, 384, dtype=np.float32).reshape(3, 128)})[0]


def packed_in(folder: Path) -> list[Path]:
    return sorted((folder.parent / "cache" / "packed").glob("*/*"))


def test_packed_weights_give_the_same_answers_and_are_packed_once(folder: Path) -> None:
    expected = answer(optim.load(folder))
    np.testing.assert_array_equal(answer(optim.load(folder, packed=True)), expected)
    (place,) = packed_in(folder)
    weights = place / "model.packed"
    assert b"prepacked" in (place / "model.onnx").read_bytes()
    made = weights.stat().st_mtime_ns
    np.testing.assert_array_equal(answer(optim.load(folder, packed=True)), expected)
    assert weights.stat().st_mtime_ns == made


def test_what_was_packed_of_a_model_before_is_not_opened_and_goes(folder: Path) -> None:
    before = answer(optim.load(folder, packed=True))
    (old,) = packed_in(folder)
    save(folder, seed=1)
    after = answer(optim.load(folder, packed=True))
    assert not np.array_equal(before, after)
    (new,) = packed_in(folder)
    assert new != old
    np.testing.assert_array_equal(after, answer(optim.load(folder)))


def test_who_packs_leaves_what_another_process_packed_meanwhile_and_clears_what_was_abandoned(folder: Path) -> None:
    optim.load(folder, packed=True)
    (place,) = packed_in(folder)
    packing, abandoned, being_made = (place.with_name(f".{name}.tmp") for name in ("this", "killed", "another"))
    for one in (packing, abandoned, being_made):
        one.mkdir()
    os.utime(abandoned, (0, 0))
    _pack(folder / "model.onnx", SessionConfig({"intra_op_num_threads": 1}), place.name, packing)
    assert (place / "model.packed").is_file()
    assert (packing / "model.packed").is_file()
    assert being_made.is_dir()
    assert not abandoned.exists()


@pytest.mark.parametrize("what", ["processor", "onnxruntime"])
def test_what_another_machine_packed_is_not_opened(folder: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    optim.load(folder, packed=True)
    (place,) = packed_in(folder)
    (place / "model.onnx").write_bytes(b"of another machine")
    if what == "processor":
        here = machine.this_machine()
        monkeypatch.setattr(machine, "this_machine", lambda: replace(here, cpu="another"))
    else:
        monkeypatch.setattr(onnxruntime, "__version__", "0.0")
    assert answer(optim.load(folder, packed=True)).shape == (3, 128)


@pytest.mark.parametrize(
    "target", [Target("gpu", "gpu", "CUDAExecutionProvider"), Target("own", "own", runtime="own-runtime")]
)
def test_weights_that_another_runtime_packs_are_refused(folder: Path, target: Target) -> None:
    write_session_files(folder, SessionFile.of(SessionConfig(), target, owner=None if target.provider else "optim-own"))
    with pytest.raises(OptimError) as refused:
        optim.load(folder, packed=True)
    assert refused.value.reference == "cannot-be-packed"


@pytest.fixture
def packing(folder: Path) -> Path:
    """The run folder of a model whose settings say that its weights are packed."""
    write_session_files(folder, SessionFile.of(SessionConfig({"intra_op_num_threads": 1}, {PACKED_WEIGHTS: "1"}), CPU))
    return folder


def test_a_result_whose_settings_say_so_is_opened_packed_unasked(packing: Path) -> None:
    opened = optim.load(packing)
    assert len(packed_in(packing)) == 1
    write_session_files(packing, SessionFile.of(SessionConfig({"intra_op_num_threads": 1}), CPU))
    np.testing.assert_array_equal(answer(opened), answer(optim.load(packing)))


def loaded(folder: Path) -> Any:
    """What load.py of a folder opens, without optim."""
    spec = importlib.util.spec_from_file_location("load", folder / "load.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_load_py_packs_once_and_never_opens_what_another_version_packed(
    packing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = loaded(packing)
    first = answer(module.load())
    (place,) = (packing / "packed").iterdir()
    assert b"prepacked" in (place / "model.onnx").read_bytes()
    made = (place / "model.packed").stat().st_mtime_ns
    np.testing.assert_array_equal(answer(module.load()), first)
    assert (place / "model.packed").stat().st_mtime_ns == made
    monkeypatch.setattr(onnxruntime, "__version__", "0.0")
    (place / "model.onnx").write_text("not opened again")
    np.testing.assert_array_equal(answer(module.load()), first)
    assert len(list((packing / "packed").iterdir())) == 2


def test_load_py_opens_the_graph_itself_where_nothing_can_be_kept(
    packing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = loaded(packing)
    expected = answer(module.load())
    shutil.rmtree(packing / "packed")
    monkeypatch.setattr(os, "access", lambda *_: False)
    np.testing.assert_array_equal(answer(module.load()), expected)
    assert not (packing / "packed").exists()


def test_a_lane_opens_packed_weights_as_a_result_does(packing: Path) -> None:
    model = describe_model(packing / "model.onnx", session=SessionConfig({}, {PACKED_WEIGHTS: "1"}))
    backend = held_backend(load_registry(), "ort")
    x = {"x": np.linspace(-1, 1, 384, dtype=np.float32).reshape(3, 128)}
    with backend.open(model, CPU) as session:
        found = session.run(x)["y"]
    assert len(packed_in(packing)) == 1
    np.testing.assert_array_equal(found, answer(optim.load(packing)))
