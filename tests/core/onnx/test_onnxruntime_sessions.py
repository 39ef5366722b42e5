"""Sessions on ONNX Runtime: settings reach it, refusals are explained, limits are measured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper
from onnx.parser import parse_model

from optim._engine.runs.session_file import SessionFile
from optim.errors import OptimError
from optim.model import SessionConfig
from optim.onnx import sessions
from optim.onnx.backend import OnnxRuntimeSession
from optim.onnx.sessions import PLAIN_CPU, measure_limits, open_session, runtime_limits, session_options
from optim.target import Target


def _write(
    path: Path, *nodes: onnx.NodeProto, opset: int = 17, ir_version: int = 8, domains: tuple[str, ...] = ()
) -> Path:
    """A model from x [1] to y [1], both float32."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy")
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in domains)]
    model = helper.make_model(helper.make_graph(nodes, "g", [x], [y]), ir_version=ir_version, opset_imports=imports)
    path.write_bytes(model.SerializeToString())
    return path


_IDENTITY = helper.make_node("Identity", ["x"], ["y"])


def _refusal(path: Path) -> OptimError:
    with pytest.raises(OptimError) as caught:
        open_session(path, SessionConfig())
    assert caught.value.reference == "session-failed"
    assert path.name in caught.value.what
    assert caught.value.fix
    return caught.value


def test_settings_reach_the_session(tmp_path: Path) -> None:
    settings = SessionConfig(
        {"graph_optimization_level": "ORT_ENABLE_BASIC", "intra_op_num_threads": 1, "enable_mem_pattern": False},
        {"session.inter_op.allow_spinning": "0"},
        ("SkipLayerNormFusion",),
    )
    options = open_session(_write(tmp_path / "m.onnx", _IDENTITY), settings).get_session_options()
    assert options.graph_optimization_level == ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    assert options.intra_op_num_threads == 1
    assert options.enable_mem_pattern is False
    assert options.get_session_config_entry("session.inter_op.allow_spinning") == "0"


@pytest.mark.parametrize(
    ("own", "of_target", "found"), [(None, 2, 2), (1, 2, 1), (3, 2, 2), (0, 2, 2), (3, 0, 3), (None, 0, 0)]
)
def test_a_session_has_at_most_the_threads_of_its_target(
    tmp_path: Path, own: int | None, of_target: int, found: int
) -> None:
    settings = SessionConfig({} if own is None else {"intra_op_num_threads": own})
    target = replace(PLAIN_CPU, threads=of_target)
    session = open_session(_write(tmp_path / "m.onnx", _IDENTITY), settings, target)
    assert session.get_session_options().intra_op_num_threads == found
    assert SessionFile.of(settings, target).config.threads == found, "session.json says so too"


def test_a_disabled_optimizer_is_really_off(tmp_path: Path) -> None:
    nodes = helper.make_node("Dropout", ["x"], ["d"]), helper.make_node("Identity", ["d"], ["y"])
    path, optimized = _write(tmp_path / "m.onnx", *nodes), tmp_path / "optimized.onnx"

    def operators(*disabled: str) -> set[str]:
        settings = SessionConfig({"optimized_model_filepath": str(optimized)}, {}, disabled)
        open_session(path, settings)
        return {node.op_type for node in onnx.load(optimized).graph.node}

    assert "Dropout" not in operators()
    assert "Dropout" in operators("EliminateDropout")


def test_extra_config_is_of_the_session_alone(tmp_path: Path) -> None:
    settings = SessionConfig()
    path, extra = _write(tmp_path / "m.onnx", _IDENTITY), {"session.force_spinning_stop": "1"}
    session = open_session(path, settings, extra_config=extra)
    assert session.get_session_options().get_session_config_entry("session.force_spinning_stop") == "1"
    assert settings == SessionConfig()


def test_an_opened_session_computes(tmp_path: Path) -> None:
    session = open_session(_write(tmp_path / "m.onnx", _IDENTITY), SessionConfig())
    assert session.run(None, {"x": np.array([3.0], np.float32)})[0].tolist() == [3.0]


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        (SessionConfig({"no_such_attribute": 1}), "no_such_attribute"),
        (SessionConfig({"graph_optimization_level": "ORT_FASTEST"}), "ORT_FASTEST"),
        (SessionConfig({"intra_op_num_threads": "two"}), "intra_op_num_threads"),
    ],
)
def test_a_setting_that_does_not_exist_is_named(settings: SessionConfig, named: str) -> None:
    with pytest.raises(OptimError) as caught:
        session_options(settings)
    assert caught.value.reference == "bad-session-setting"
    assert named in caught.value.cause


def test_a_provider_that_is_not_there_is_refused_not_replaced_by_the_cpu(tmp_path: Path) -> None:
    with pytest.raises(OptimError) as caught:
        target = Target("nowhere", "ort", "NoSuchExecutionProvider")
        open_session(_write(tmp_path / "m.onnx", _IDENTITY), SessionConfig(), target)
    assert caught.value.reference == "provider-missing"
    assert "CPUExecutionProvider" in caught.value.cause


def test_unknown_operators_and_domains_are_named(tmp_path: Path) -> None:
    unknown = helper.make_node("Foo", ["x"], ["y"])
    assert "opset 17 has no operator Foo" in _refusal(_write(tmp_path / "a.onnx", unknown)).cause
    custom = helper.make_node("Foo", ["x"], ["y"], domain="acme")
    assert "acme:Foo" in _refusal(_write(tmp_path / "b.onnx", custom, domains=("acme",))).cause


def test_formats_that_are_too_new_say_what_is_accepted(tmp_path: Path) -> None:
    assert "opset 99" in _refusal(_write(tmp_path / "a.onnx", _IDENTITY, opset=99)).cause
    error = _refusal(_write(tmp_path / "b.onnx", _IDENTITY, ir_version=99))
    assert "IR version 99" in error.cause
    assert str(runtime_limits().ir_version) in error.cause


def test_an_invalid_graph_says_what_is_wrong_with_it(tmp_path: Path) -> None:
    dangling = helper.make_node("Add", ["x", "nowhere"], ["y"])
    error = _refusal(_write(tmp_path / "a.onnx", dangling))
    assert "'nowhere'" in error.cause
    assert "ONNXRuntimeError" not in error.cause
    assert "not a valid model" in error.fix


def test_files_that_are_no_models_are_refused(tmp_path: Path) -> None:
    whole = _write(tmp_path / "a.onnx", _IDENTITY)
    cut = tmp_path / "cut.onnx"
    cut.write_bytes(whole.read_bytes()[:30])
    assert "not an ONNX file" in _refusal(cut).cause
    assert "no such file" in _refusal(tmp_path / "missing.onnx").cause


def test_a_file_of_the_store_is_called_by_the_first_part_of_its_digest(tmp_path: Path) -> None:
    digest = "0123456789abcdef" * 4
    dangling = helper.make_node("Add", ["x", "nowhere"], ["y"])
    with pytest.raises(OptimError) as caught:
        open_session(_write(tmp_path / f"{digest}.onnx", dangling), SessionConfig())
    assert digest not in str(caught.value)
    assert "0123456789ab.onnx" in caught.value.what


def test_missing_weights_are_named_without_folders_of_this_machine(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.onnx", helper.make_node("Add", ["x", "w"], ["y"]))
    model = onnx.load(path)
    weight = model.graph.initializer.add(name="w", data_type=TensorProto.FLOAT, dims=[1])
    weight.data_location = TensorProto.EXTERNAL
    for key, text in {"location": "weights.data", "offset": "0", "length": "4"}.items():
        weight.external_data.add(key=key, value=text)
    path.write_bytes(model.SerializeToString())
    cause = _refusal(path).cause
    assert "weights.data" in cause
    assert str(tmp_path) not in cause


def test_limits_are_exactly_what_the_runtime_opens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime_limits.cache_clear()
    asked: list[bytes] = []
    monkeypatch.setattr(sessions, "_opens", lambda model, opens=sessions._opens: asked.append(model) or opens(model))
    measured = runtime_limits()
    assert len(asked) < 100  # a millisecond each
    open_session(_write(tmp_path / "a.onnx", _IDENTITY, ir_version=measured.ir_version), SessionConfig())
    _refusal(_write(tmp_path / "b.onnx", _IDENTITY, ir_version=measured.ir_version + 1))
    open_session(_write(tmp_path / "c.onnx", _IDENTITY, opset=measured.opset[""]), SessionConfig())
    _refusal(_write(tmp_path / "d.onnx", _IDENTITY, opset=measured.opset[""] + 1))


@pytest.mark.parametrize("newest", [0, 1, 2, 5, 26, 32])
def test_the_newest_version_of_a_domain_is_found_wherever_it_lies(newest: int) -> None:
    def opens(model: bytes) -> bool:
        read = onnx.load_from_string(model)
        return read.ir_version < 14 and read.opset_import[-1].version <= newest

    found = measure_limits(opens)
    assert {found.opset[domain] for domain in found.opset if domain} == {newest}


def test_limits_tell_domains_that_the_runtime_has_from_others() -> None:
    domains = set(runtime_limits().opset)
    assert domains >= {"", "ai.onnx.ml", "com.microsoft"}
    assert "acme" not in domains


@pytest.mark.parametrize(("kind", "number"), [("bfloat16", 16), ("float8e4m3fn", 17)])
def test_types_that_numpy_lacks_go_in_and_come_out(kind: str, number: int, tmp_path: Path) -> None:
    model = parse_model(f"""
        <ir_version: 9, opset_import: ["" : 19]>
        g (float[2, 3] x, {kind}[2] given) => ({kind}[2, 3] y, {kind}[2] same, float[2, 3] z) {{
            y = Cast<to = {number}>(x)
            same = Identity(given)
            z = Neg(x)
        }}""")
    onnx.save(model, tmp_path / "model.onnx")
    x, dtype = np.array([[1, 2, 0.5], [-4, 0, 3]], np.float32), helper.tensor_dtype_to_np_dtype(number)
    session = OnnxRuntimeSession(open_session(tmp_path / "model.onnx", SessionConfig()), "CPUExecutionProvider")
    found = session.run({"x": x, "given": np.array([2, -8], dtype)})
    assert found["y"].dtype == found["same"].dtype == dtype
    assert np.array_equal(found["y"].astype(np.float32), x) and np.array_equal(found["z"], -x)
    assert np.array_equal(found["same"].astype(np.float32), [2, -8])
