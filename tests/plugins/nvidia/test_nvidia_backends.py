"""Sessions with inputs and outputs on the device (here the CPU's memory), and engines of other devices."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import helper
from ort_models import build

from optim import Model, OptimError, SessionConfig
from optim.onnx import session_failed, sessions
from optim.onnx.files import save_in_store
from optim.providers import RECORD_ASSIGNMENT, TENSORRT
from optim_plugins.nvidia.gpu import engine_cache
from optim_plugins.nvidia.gpu.backends import BUILT_FOR, CudaBackend, TensorrtBackend
from optim_plugins.nvidia.gpu.bound_session import BoundSession, DeviceMemory
from optim_plugins.nvidia.gpu.targets import cuda_targets, tensorrt_targets

CPU = "CPUExecutionProvider"
MODEL = "5" * 64
HERE = "NVIDIA L4, 23 GiB, compute capability 8.9, driver 580.95"


@pytest.fixture
def model(tmp_path: Path) -> Model:
    nodes = [helper.make_node("Tanh", ["x"], ["y"]), helper.make_node("Neg", ["x"], ["z"])]
    return build(tmp_path, nodes, {}, {"x": [2, 3]}, {"y": [2, 3], "z": [2, 3]})


def _opened(model: Model, memory: DeviceMemory = DeviceMemory("cpu"), **settings: Any) -> BoundSession:  # noqa: B008
    options = onnxruntime.SessionOptions()
    for key, text in RECORD_ASSIGNMENT.items():
        options.add_session_config_entry(key, text)
    session = onnxruntime.InferenceSession(str(model.path), options, providers=[CPU])
    return BoundSession(session, CPU, memory, **settings)


@pytest.mark.parametrize("replayed", [False, True])
def test_a_bound_session_computes_what_it_is_given_each_time(model: Model, replayed: bool) -> None:
    session = _opened(model, replayed=replayed)
    for value in (0.5, -2.0):
        x = np.full((2, 3), value, np.float32)
        outputs = session.run({"x": x, "no longer there": x})
        np.testing.assert_allclose(outputs["y"], np.tanh(x), rtol=1e-6)
        np.testing.assert_array_equal(outputs["z"], -x)
    assert session.executed_on == {CPU: 1.0}
    session.close()
    assert not session._buffers


def test_an_input_that_has_a_default_may_be_left_out(tmp_path: Path) -> None:
    nodes = [helper.make_node("Add", ["x", "shift"], ["y"])]
    shift = {"shift": np.ones(3, np.float32)}
    session = _opened(build(tmp_path, nodes, shift, {"x": [2, 3]}, {"y": [2, 3]}, weights_are_inputs=True))
    x = np.zeros((2, 3), np.float32)
    assert session.run({"x": x})["y"].max() == 1
    assert session.run({"x": x, "shift": 2 * shift["shift"]})["y"].max() == 2


def test_a_graph_that_is_replayed_keeps_the_buffers_of_its_first_run(model: Model) -> None:
    session = _opened(model, replayed=True)
    session.run({"x": np.zeros((2, 3), np.float32)})
    first = {name: value.data_ptr() for name, value in session._buffers.items()}
    session.run({"x": np.ones((2, 3), np.float32)})
    assert {name: value.data_ptr() for name, value in session._buffers.items()} == first
    assert set(first) == {"x", "y", "z"}


@pytest.mark.parametrize("copies_timed", [False, True])
def test_copies_are_timed_only_where_that_is_asked_for(
    model: Model, copies_timed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = _opened(model, copies_timed=copies_timed)
    bound: list[int] = []
    binding = session._bound
    monkeypatch.setattr(session, "_bound", lambda feeds: bound.append(1) or binding(feeds))
    assert len(session.time_runs({"x": np.zeros((2, 3), np.float32)}, 4)) == 4
    assert len(bound) == (4 if copies_timed else 1)


def test_memory_of_the_device_is_what_was_taken_since_opening(model: Model) -> None:
    assert _opened(model, DeviceMemory("cpu", 0, lambda: 700, 500)).peak_memory_bytes() == 200
    assert _opened(model).peak_memory_bytes() is None


def test_too_little_memory_on_the_device_is_one_clear_error(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    session = _opened(model)

    class Full:
        def run_with_iobinding(self, _binding: Any) -> None:
            raise RuntimeError("BFCArena::AllocateRawInternal Failed to allocate memory for requested buffer of size 1")

    monkeypatch.setattr(session, "_bound", lambda _feeds: None)
    session._session = Full()  # type: ignore[assignment]
    with pytest.raises(OptimError, match="device-memory") as caught:
        session.run({"x": np.zeros((2, 3), np.float32)})
    assert "smaller batch" in caught.value.fix


def test_too_little_memory_to_open_a_model_is_the_same_error(
    cache: Path, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        said = RuntimeError("Exception during initialization: Failed to allocate memory for requested buffer of size 7")
        raise session_failed(model.path, said) from said

    monkeypatch.setattr(sessions, "open_session", full)
    for backend, target in ((CudaBackend(), cuda_targets()[0]), (TensorrtBackend(), tensorrt_targets()[0])):
        with pytest.raises(OptimError, match="device-memory"):
            backend.open(model, replace(target.plain, hardware=HERE))


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OPTIM_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_engines_of_each_device_and_version_have_a_folder_of_their_own(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = engine_cache.cache_options(HERE, MODEL)
    assert own["trt_engine_cache_path"].startswith(str(cache))
    assert engine_cache.cache_options(HERE, MODEL) == own
    other = engine_cache.cache_options("NVIDIA H100, driver 580.95", MODEL)
    assert other["trt_engine_cache_path"] != own["trt_engine_cache_path"]
    assert engine_cache.other_engines(HERE) == []
    (Path(other["trt_engine_cache_path"]) / "one.engine").touch()
    assert [text.partition(";")[0] for text in engine_cache.other_engines(HERE)] == ["NVIDIA H100, driver 580.95"]
    monkeypatch.setattr(engine_cache, "_version", lambda _name: "1.0.0")
    assert engine_cache.cache_options(HERE, MODEL) != own


def test_engines_of_each_model_and_its_settings_have_a_folder_of_their_own(cache: Path, model: Model) -> None:
    """ONNX Runtime's names of engines tell neither weights nor how long TensorRT searched."""
    longer = model.with_session(SessionConfig(provider_options={TENSORRT: {"trt_builder_optimization_level": "5"}}))
    own, other = (engine_cache.cache_options(HERE, one.digest) for one in (model, longer))
    assert own["trt_engine_cache_path"] != other["trt_engine_cache_path"]
    assert own["trt_timing_cache_path"] == other["trt_timing_cache_path"]


def test_an_engine_of_another_device_is_refused(cache: Path, model: Model, tmp_path: Path) -> None:
    graph = model.ir()
    graph.metadata_props[BUILT_FOR] = engine_cache.built_for("NVIDIA H100, driver 580.95")
    built = save_in_store(graph, tmp_path / "store")
    target = replace(tensorrt_targets()[0].plain, hardware=HERE)
    with pytest.raises(OptimError, match="engine-elsewhere") as caught:
        TensorrtBackend().open(built, target)
    assert "H100" in caught.value.cause and "L4" in caught.value.cause


def test_the_cpu_build_is_one_clear_error_on_both(cache: Path, model: Model) -> None:
    for backend, target in ((CudaBackend(), cuda_targets()[0]), (TensorrtBackend(), tensorrt_targets()[0])):
        with pytest.raises(OptimError, match="provider-missing") as caught:
            backend.open(model, replace(target.plain, hardware=HERE))
        assert "onnxruntime-gpu" in caught.value.fix
    assert any("use_tf32" in str(one.provider_options) for one in CudaBackend().equivalent_settings(cuda_targets()[0]))
