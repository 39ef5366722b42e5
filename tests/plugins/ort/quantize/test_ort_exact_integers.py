"""Models with 8-bit products are computed exactly, on processors too whose fast kernels add pairs in 16 bits."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from ort_models import CPU, Array, apply, build, context, stored

from optim import Model, SessionConfig
from optim._engine.cli.main import main
from optim.errors import ExitStatus
from optim.onnx import EXACT_INTEGERS
from optim_plugins.ort import hardware
from optim_plugins.ort.hardware import Processor
from optim_plugins.ort.plugin import OrtBackend
from optim_plugins.ort.quantize.exact_integers import ExactIntegers
from optim_plugins.ort.tune.tune_session import TuneSession

AVX2 = Processor("x86_64", frozenset({"avx", "avx2", "fma"}))
VNNI = Processor("x86_64", frozenset({"avx2", "avx_vnni"}))
SIZE = 64


def _weight(seed: int) -> Array:
    """Integers that use all 8 bits, most of them large and of one sign: many pairs of products saturate."""
    return np.random.default_rng(seed).integers(60, 128, (SIZE, SIZE)).astype(np.int8)


def _values() -> Array:
    return np.random.default_rng(0).integers(120, 256, (8, SIZE)).astype(np.uint8)


def _sums(folder: Path) -> Model:
    node = helper.make_node("MatMulInteger", ["x", "w"], ["y"])
    inputs = [helper.make_tensor_value_info("x", TensorProto.UINT8, [8, SIZE])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.INT32, [8, SIZE])]
    graph = helper.make_graph([node], "g", inputs, outputs, [numpy_helper.from_array(_weight(1), "w")])
    path = folder / "sums.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return stored(path, folder)


def _quantized(folder: Path, *, shared: bool = False) -> Path:
    """Two products between Q/DQ pairs, as a library quantizes them: unsigned activations, signed 8-bit weights.

    Args:
        folder: gets the file.
        shared: whether both weights have one zero point.
    """
    nodes = []
    scales = {"xs": 1 / 255, "hs": 64 / 255, "ws": 1 / 127}
    constants = [numpy_helper.from_array(np.array(scale, np.float32), name) for name, scale in scales.items()]
    zeros = {"z": np.uint8, "wz1": np.int8, "wz2": np.int8}
    constants += [numpy_helper.from_array(np.array(0, kind), name) for name, kind in zeros.items()]
    value = "x"
    for layer, scale in ((1, "xs"), (2, "hs")):
        constants.append(numpy_helper.from_array(_weight(layer), f"w{layer}"))
        nodes += [
            helper.make_node("QuantizeLinear", [value, scale, "z"], [f"q{layer}"]),
            helper.make_node("DequantizeLinear", [f"q{layer}", scale, "z"], [f"d{layer}"]),
            helper.make_node("DequantizeLinear", [f"w{layer}", "ws", "wz1" if shared else f"wz{layer}"], [f"v{layer}"]),
            helper.make_node("MatMul", [f"d{layer}", f"v{layer}"], [f"y{layer}"]),
        ]
        value = f"y{layer}"
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [8, SIZE]) for name in ("x", value)]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], constants)
    path = folder / "quantized.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def _float(folder: Path) -> Model:
    return build(folder, [helper.make_node("Tanh", ["x"], ["y"])], {}, {"x": ["n"]}, {"y": ["n"]})


@pytest.mark.parametrize("settings", [SessionConfig(), *OrtBackend().equivalent_settings(CPU)[2:]])
def test_sums_of_the_reference_are_exact_on_every_processor(tmp_path: Path, settings: SessionConfig) -> None:
    model = replace(_sums(tmp_path), session=settings)
    with OrtBackend().open_reference(model, CPU) as session:
        found = session.run({"x": _values()})["y"]
    assert np.array_equal(found, _values().astype(int) @ _weight(1).astype(int))


def test_sums_as_they_stand_are_exact_where_the_table_says_so(tmp_path: Path) -> None:
    with OrtBackend().open(_sums(tmp_path), CPU) as session:
        found = session.run({"x": _values()})["y"]
    exact = np.array_equal(found, _values().astype(int) @ _weight(1).astype(int))
    assert exact == hardware.multiplies_integers_exactly()


def test_the_setting_is_for_integers_on_processors_that_saturate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sums, backend = _sums(tmp_path), OrtBackend()
    monkeypatch.setattr(hardware, "this_processor", lambda: AVX2)
    assert ExactIntegers().applicable(sums, CPU)
    assert "no 8-bit products that a setting" in ExactIntegers().applicable(_float(tmp_path), CPU).reason
    assert "CUDA" in ExactIntegers().applicable(sums, replace(CPU, provider="CUDAExecutionProvider")).reason
    found = backend.exact_settings(sums, CPU)
    assert found is not None
    assert (found.session, found.pass_name) == (EXACT_INTEGERS, ExactIntegers.name)
    assert "saturate" in found.cause
    assert backend.exact_settings(_float(tmp_path), CPU) is None
    assert backend.exact_settings(sums, replace(CPU, provider="CUDAExecutionProvider")) is None
    monkeypatch.setattr(hardware, "this_processor", lambda: VNNI)
    assert "adds 8-bit products in 32 bits" in ExactIntegers().applicable(sums, CPU).reason
    assert backend.exact_settings(sums, CPU) is None


def test_the_setting_is_laid_over_others_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "this_processor", lambda: AVX2)
    model = _sums(tmp_path).with_session(SessionConfig({"intra_op_num_threads": 1}))
    result = apply(ExactIntegers, model, tmp_path)
    assert result.changed
    assert result.model.session == SessionConfig({"intra_op_num_threads": 1}, EXACT_INTEGERS.session_config)
    assert OrtBackend().exact_settings(result.model, CPU) is None
    again = apply(ExactIntegers, result.model, tmp_path)
    assert not again.changed
    assert "already" in again.notes[0]


@pytest.mark.parametrize("shared", [False, True], ids=["own zero points", "one zero point"])
def test_the_reference_of_a_quantized_model_is_that_of_its_integers_in_float(tmp_path: Path, shared: bool) -> None:
    model = stored(_quantized(tmp_path, shared=shared), tmp_path)
    feeds = {"x": np.random.default_rng(0).uniform(0.5, 1, (8, SIZE)).astype(np.float32)}
    with OrtBackend().open_reference(model, CPU) as session:
        found = session.run(feeds)["y2"]
    in_float = replace(model, session=SessionConfig({"graph_optimization_level": "ORT_DISABLE_ALL"}))
    with OrtBackend().open(in_float, CPU) as session:
        assert np.linalg.norm(found - session.run(feeds)["y2"]) <= 1e-3 * np.linalg.norm(found)


def test_models_that_share_a_zero_point_are_computed_in_float(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "this_processor", lambda: AVX2)
    shared = stored(_quantized(tmp_path, shared=True), tmp_path)
    found = OrtBackend().exact_settings(shared, CPU)
    assert found is not None
    assert found.session == SessionConfig({}, {"session.disable_quant_qdq": "1"})
    assert "computed in float" in apply(ExactIntegers, shared, tmp_path).notes[0]


def test_levels_at_which_the_setting_does_nothing_are_not_proposed(tmp_path: Path) -> None:
    plain = _sums(tmp_path)
    levels = [
        {options.level for options in TuneSession().candidates(model, CPU, context(tmp_path))}
        for model in (plain, plain.with_session(EXACT_INTEGERS))
    ]
    assert {"basic", "disable"} <= levels[0]
    assert not {"basic", "disable"} & levels[1]
    assert "extended" in levels[1]


@pytest.mark.slow
@pytest.mark.parametrize("shared", [False, True], ids=["own zero points", "one zero point"])
def test_a_model_that_saturates_here_is_named_and_delivered_with_the_setting(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, shared: bool
) -> None:
    if hardware.multiplies_integers_exactly():
        pytest.skip("takes a processor whose kernels saturate: run it by benchmarks/as_avx2.py")
    monkeypatch.setenv("OPTIM_CACHE_DIR", str(tmp_path / "cache"))
    model, out = str(_quantized(tmp_path, shared=shared)), tmp_path / "out"
    random = np.random.default_rng(0)
    for number in range(4):
        (tmp_path / "data").mkdir(exist_ok=True)
        np.savez(tmp_path / "data" / f"{number}.npz", x=random.uniform(0.5, 1, (8, SIZE)).astype(np.float32))
    words = ["--data", str(tmp_path / "data")]
    short = ["--lossless", "--stage", "fuse", "--search-seconds", "60"]
    assert main(["run", model, "-o", str(out), *short, *words]) == ExitStatus.DELIVERED
    report = json.loads((out / "report.json").read_text())
    assert any("wrong values on this processor" in note and "saturate" in note for note in report["notes"])
    assert not any("settings that should not matter" in note for note in report["notes"])
    assert report["status"] in ("improved", "prepared")
    session = json.loads((out / "session.json").read_text())
    assert session["session_config"]["session.disable_quant_qdq" if shared else "session.x64quantprecision"] == "1"
    capsys.readouterr()
    assert main(["verify", model, model, "--json", *words]) == ExitStatus.NOT_HELD
    assert "saturate" in json.loads(capsys.readouterr().out)["notes"][0]
    assert main(["verify", model, str(out), "--max-drift", "1e-3", *words]) == ExitStatus.DELIVERED
