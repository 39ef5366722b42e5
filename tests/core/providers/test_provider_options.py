"""Options of providers that belong to a model: from a pass through session.json to the session."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from optim._engine.load_script import LOAD_TEXT
from optim._engine.runs.session_file import SessionFile, write_session_files
from optim._engine.runs.session_trust import read_session_file
from optim.errors import OptimError
from optim.model import SessionConfig
from optim.onnx.digests import model_digest
from optim.onnx.files import describe_model
from optim.onnx.sessions import open_session
from optim.providers import start
from optim.providers.names import CPU, CUDA, GROUP_QUERY_FUSION, TENSORRT, settings_around_faults
from optim.target import Target

TUNED = SessionConfig(
    provider_options={CUDA: {"prefer_nhwc": "1", "device_id": "1"}, TENSORRT: {"trt_fp16_enable": "True"}}
)
GPU = Target("tensorrt", "tensorrt", TENSORRT, {"device_id": "0"}, also={CUDA: {"device_id": "0"}}, shapes_on_cpu=True)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", ends[:1], ends[1:])
    onnx.save(
        helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 20)]), tmp_path / "model.onnx"
    )
    return tmp_path / "model.onnx"


def test_later_options_lie_over_earlier_ones_provider_by_provider(model: Path) -> None:
    merged = TUNED.updated(SessionConfig(provider_options={CUDA: {"prefer_nhwc": "0"}}))
    assert merged.provider_options == {
        CUDA: {"prefer_nhwc": "0", "device_id": "1"},
        TENSORRT: {"trt_fp16_enable": "True"},
    }
    assert len({model_digest(model, one) for one in (SessionConfig(), TUNED, merged)}) == 3


def test_a_session_leaves_out_the_options_of_providers_that_it_does_not_have(model: Path) -> None:
    session = open_session(model, TUNED)
    assert session.run(None, {"x": np.float32([-1, 2])})[0].tolist() == [0, 2]
    assert session.get_providers() == [CPU]


def test_options_of_the_model_lie_over_those_of_the_target(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import onnxruntime

    asked: list[object] = []

    class RefusedError(Exception):
        pass

    def opened(*_model: object, providers: object, **_rest: object) -> None:
        asked.append(providers)
        raise RefusedError

    monkeypatch.setattr("onnxruntime.get_available_providers", lambda: [TENSORRT, CUDA, CPU])
    monkeypatch.setattr(onnxruntime, "InferenceSession", opened)
    with pytest.raises(OptimError):
        open_session(model, TUNED, GPU)
    assert asked == [
        [(TENSORRT, {"device_id": "0", "trt_fp16_enable": "True"}), (CUDA, {"device_id": "1", "prefer_nhwc": "1"})]
    ]


def test_a_provider_that_does_not_start_is_an_error_with_the_missing_library(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onnxruntime.get_available_providers", lambda: [CUDA, CPU])
    monkeypatch.setattr("optim.onnx.sessions.missing_library", lambda _provider: "libcublasLt.so.13 is missing")
    with pytest.warns(UserWarning), pytest.raises(OptimError, match="cpu-fallback") as caught:
        open_session(model, SessionConfig(), replace(GPU, provider=CUDA, also={}))
    assert "libcublasLt.so.13 is missing" in caught.value.cause
    assert caught.value.fix == start.CUDA_COMMAND


@pytest.mark.parametrize(
    ("said", "missing", "reference", "cause"),
    [
        ("Please install TensorRT libraries", "libnvinfer.so.10 is missing", "cpu-fallback", "libnvinfer.so.10"),
        (
            'provider_options_utils.h:182 Parse Unknown provider option: "use_tf33".',
            "",
            "session-failed",
            "no option use_tf33",
        ),
        ("Invalid TensorRT EP option: trt_fp15_enable", "", "session-failed", "no option trt_fp15_enable"),
        (
            "The value for the key 'trt_fp16_enable' should be 'True'",
            "",
            "session-failed",
            "value of its option trt_fp16",
        ),
    ],
)
def test_a_provider_that_cannot_be_made_is_an_error_and_no_run_on_the_cpu(
    said: str, missing: str, reference: str, cause: str, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import onnxruntime

    monkeypatch.setattr("onnxruntime.get_available_providers", lambda: [TENSORRT, CUDA, CPU])
    monkeypatch.setattr("optim.onnx.sessions.missing_library", lambda _provider: missing)

    def opened(_inference: object, providers: object, *_rest: object) -> None:
        if providers != [CPU]:  # where onnxruntime falls back to by itself
            raise RuntimeError(said)

    monkeypatch.setattr(onnxruntime.InferenceSession, "_create_inference_session", opened)
    with pytest.raises(OptimError, match=reference) as caught:
        open_session(model, SessionConfig(), GPU)
    assert cause in caught.value.cause


def test_a_run_that_fails_on_a_device_is_not_done_again_on_the_cpu(model: Path) -> None:
    import runpy

    write_session_files(model.parent, SessionFile.of(SessionConfig(), Target("cpu", "ort", CPU)))
    for session in (open_session(model, SessionConfig()), runpy.run_path(str(model.parent / "load.py"))["load"]()):
        assert not session._enable_fallback


@pytest.mark.parametrize(("inputs", "broken"), [(9, False), (11, True)])
def test_an_optimizer_that_breaks_a_graph_on_cuda_is_switched_off_there(
    inputs: int, broken: bool, tmp_path: Path
) -> None:
    names = [f"i{number}" for number in range(inputs)]
    node = helper.make_node("GroupQueryAttention", names, ["y", "k", "v"], domain="com.microsoft")
    onnx.save(helper.make_model(helper.make_graph([node], "g", [], [])), tmp_path / "model.onnx")
    assert settings_around_faults(tmp_path / "model.onnx", Target("cpu", "ort", CPU)) == SessionConfig()
    model = describe_model(tmp_path / "model.onnx")
    write_session_files(tmp_path, SessionFile.of(TUNED, GPU, model=model))
    assert read_session_file(tmp_path).disabled_optimizers == ((GROUP_QUERY_FUSION,) if broken else ())


def test_what_is_missing_has_its_own_remedy() -> None:
    assert start.remedy((TENSORRT,), "libnvinfer.so.10 is missing") == start.TENSORRT_COMMAND
    assert start.remedy((CUDA,), "libcudnn.so.9 is missing") == start.CUDA_COMMAND
    assert "driver" in start.remedy((CUDA,), "libcuda.so.1 is missing")
    assert start.remedy((CPU,), "") == ""
    assert "no libonnxruntime_providers_cuda" in start.missing_library(CUDA).replace(".dll", "").replace(
        "has no onnx", "has no libonnx"
    )


def test_the_cpu_build_is_told_how_it_becomes_the_gpu_build(model: Path) -> None:
    with pytest.raises(OptimError, match="provider-missing") as caught:
        open_session(model, SessionConfig(), Target("cuda", "cuda", CUDA))
    assert caught.value.fix == "pip uninstall -y onnxruntime && pip install 'onnxruntime-gpu[cuda,cudnn]'"


def test_session_json_keeps_what_is_the_targets_from_what_is_the_models(tmp_path: Path) -> None:
    write_session_files(tmp_path, SessionFile.of(TUNED, GPU))
    saved = read_session_file(tmp_path)
    assert saved == SessionFile.of(TUNED, GPU)
    assert saved.config == TUNED
    assert (saved.provider_options, saved.also) == ({"device_id": "0"}, {CUDA: {"device_id": "0"}})
    assert "shapes_on_cpu" in LOAD_TEXT and "tuned_provider_options" in LOAD_TEXT


def test_load_py_asks_for_every_provider_with_the_models_options(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import runpy

    import onnxruntime

    write_session_files(model.parent, SessionFile.of(TUNED, GPU))
    asked = []
    real = onnxruntime.InferenceSession

    def opened(path: str, options: object, *, providers: list[tuple[str, dict[str, str]]], **rest: object) -> object:
        asked.extend(providers)
        return real(path, options, providers=[CPU])

    monkeypatch.setattr(onnxruntime, "InferenceSession", opened)
    with pytest.raises(RuntimeError, match="TensorrtExecutionProvider could not be started"):
        runpy.run_path(str(model.parent / "load.py"))["load"]()
    assert dict(asked)[CUDA] == {"device_id": "1", "prefer_nhwc": "1"}


@pytest.mark.parametrize(
    "said",
    [
        {"tuned_provider_options": {TENSORRT: {"trt_extra_plugin_lib_paths": "planted.so"}}},
        {"tuned_provider_options": {TENSORRT: {"trt_engine_cache_path": "planted"}}},
        {"also": {CUDA: {"gpu_external_alloc": "140234"}}},
        {"provider": TENSORRT, "provider_options": {"trt_timing_cache_path": "planted"}},
        {"tuned_provider_options": {CUDA: {"device_id": "../planted"}}},
    ],
)
def test_options_from_a_stranger_name_no_file_and_no_memory(tmp_path: Path, said: dict[str, object]) -> None:
    write_session_files(tmp_path, SessionFile.of(SessionConfig(), replace(GPU, provider=CUDA, also={})))
    path = tmp_path / "session.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **said}))
    with pytest.raises(OptimError, match="untrusted-setting"):
        read_session_file(tmp_path)


def test_a_vendors_target_says_which_options_anybody_may_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    acme = Target("acme", "acme", "AcmeExecutionProvider", {"tiles": "4"}, harmless_options=("tiles",))
    write_session_files(tmp_path, SessionFile.of(SessionConfig(provider_options={acme.provider: {"tiles": "8"}}), acme))
    with pytest.raises(OptimError, match="untrusted-setting"):
        read_session_file(tmp_path)
    monkeypatch.setattr("optim._engine.plugins.registry.Registry.targets", lambda self: {"acme": acme})
    assert read_session_file(tmp_path).tuned_provider_options == {acme.provider: {"tiles": "8"}}


def test_a_target_says_which_device_is_here_to_every_key_and_report() -> None:
    target = Target("gpu", "gpu", CUDA, identify=lambda: "NVIDIA L4, driver 580.95")
    assert target.plain.hardware == "NVIDIA L4, driver 580.95"
    assert target.plain != replace(target, identify=lambda: "NVIDIA L40S, driver 580.95").plain
    assert (target.made_for, replace(target, provider=CPU, prepares_for=CUDA).made_for) == (CUDA, CUDA)
