"""Errors that no other test comes to: each is provoked once, and known by its reference."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from optim._engine.backends import held
from optim._engine.cli.main import main
from optim._engine.compare.comparison import Comparison
from optim._engine.compare.distrust import checked_model
from optim._engine.compare.original import _not_itself
from optim._engine.plugins.registry import load_registry
from optim._engine.runs.compare import prepared
from optim._engine.search.measure.racing import Races
from optim._engine.sources.naming import fetched, quiet
from optim._engine.timing.profiled import profile_of
from optim.errors import ExitStatus, OptimError
from optim.model import AdapterInput, Model, TensorInfo
from optim.onnx.backend import OnnxRuntimeBackend
from optim.onnx.files import read_ir, save_in_store
from optim.onnx.libraries import operator_library_path
from optim.onnx.sessions import PLAIN_CPU
from optim.passes import Interface, PassResult
from optim.source import Component, Source, SourceRequest, TrialStep
from optim.source import Trial as SourceTrial
from optim_plugins.adapted import read_adapter
from optim_plugins.export.record import record
from optim_plugins.export.verify import verify_component
from optim_testing import Trial


def refusal(call: Any) -> OptimError:
    with pytest.raises(OptimError) as caught:
        call()
    return caught.value


def an_adapter(folder: Path) -> Path:
    (folder / "a.safetensors").write_bytes(b"8 bytes and more")
    return folder / "a.safetensors"


@pytest.mark.parametrize(
    ("reference", "library", "call", "brings"),
    [
        (
            "operators-missing",
            "onnxruntime_extensions",
            lambda _: operator_library_path("onnxruntime_extensions"),
            "pip install onnxruntime-extensions",
        ),
        (
            "hub-missing",
            "huggingface_hub.errors",
            lambda _: fetched("hf://of/nobody/model.onnx", quiet),
            "pip install 'huggingface_hub>=1.0'",
        ),
        (
            "safetensors-missing",
            "safetensors",
            lambda folder: read_adapter(an_adapter(folder)),
            "pip install safetensors, or use .onnx_adapter",
        ),
    ],
)
def test_a_library_that_is_not_installed_is_named_with_what_brings_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, reference: str, library: str, call: Any, brings: str
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    found = refusal(lambda: call(tmp_path))
    assert (found.reference, found.fix) == (reference, brings)


def pairs(path: Path, columns: int = 2) -> onnxruntime.InferenceSession:
    """A graph y = relu(x) for x [2, columns] alone."""
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, columns]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", ends[:1], ends[1:])
    onnx.save(helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 18)]), path)
    return onnxruntime.InferenceSession(path)


def relu(*shapes: tuple[int, ...], broken: bool = False) -> Component:
    """What any size goes through, tried in some."""

    def run(feeds: Any) -> Any:
        if broken:
            raise ValueError("no such thing")
        return {"y": np.maximum(feeds["x"], 0)}

    ends = {name: (TensorInfo(name, "float32", ("rows", 2)),) for name in "xy"}
    trials = [SourceTrial(f"{shape}", (TrialStep({"x": np.ones(shape, np.float32)}),)) for shape in shapes]
    return Component("model", None, ends["x"], ends["y"], {"x": np.ones((2, 2), np.float32)}, lambda: trials, run)


def test_a_size_that_became_a_constant_is_told_with_the_trial(tmp_path: Path) -> None:
    evidence = record(Source(SourceRequest("of:a_test"), (relu((2, 2), (3, 2)),)), tmp_path)
    session = pairs(tmp_path / "model.onnx")
    found = refusal(lambda: verify_component(session, tmp_path, evidence.components[0]))
    assert found.reference == "export-refuses"
    assert "(3, 2)" in found.cause


def test_a_module_that_runs_on_nothing_says_what_it_raised(tmp_path: Path) -> None:
    found = refusal(lambda: record(Source(SourceRequest("of:a_test"), (relu((2, 2), broken=True),)), tmp_path))
    assert (found.reference, found.cause) == ("source-does-not-run", "(2, 2): ValueError: no such thing")


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("bad-trace", ["profile", "model.onnx", "--trace", "trace.txt"]),
        ("unknown-topic", ["help", "recipes"]),
        ("unknown-error", ["help", "errors/unknown-pas"]),
        ("pass-not-for-target", ["run", "model.onnx", "-o", "out", "--with", "tensorrt.engine"]),
        ("weights-not-below", ["export", "torch.nn:Identity", "-o", "out", "--weights", "link"]),
        ("not-qnn", ["qnn", "support", "model.onnx", "--target", "cpu"]),
        ("bad-kernels", ["swap", "model.onnx", "--kernels", "Relu=cuda"]),
        ("not-an-onnx-name", ["merge-decoders", "model.onnx", "model.onnx", "-o", "out.bin"]),
    ],
)
def test_words_that_cannot_be_meant_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Any, reference: str, words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    pairs(tmp_path / "model.onnx")
    assert main(words) == ExitStatus.USAGE
    assert f"error[{reference}]" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"]


def test_what_was_installed_and_is_no_plugin_is_named(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr("optim_plugins.diagnose.installation.packages.install_package", lambda name, alone: "click")
    assert main(["plugins", "install", "click"]) == ExitStatus.USAGE
    assert "error[no-plugin-inside]: click was installed" in capsys.readouterr().err


def test_of_several_components_one_must_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = [SimpleNamespace(known=SimpleNamespace(component=name)) for name in ("encoder", "decoder")]
    monkeypatch.setattr(prepared, "export_source", lambda *asked: graphs)
    where: Any = (PLAIN_CPU, None, None, print)
    found = refusal(lambda: prepared._exported(Path("package:function"), "", *where))
    assert (found.reference, found.fix) == ("which-component", "--component decoder")


def test_a_device_that_another_process_keeps_is_refused_with_its_holder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held, "MOST_WAIT_S", 0.0)
    first, second = held.Device("of a test"), held.Device("of a test")
    session: Any = SimpleNamespace()
    first.take(session)
    found = refusal(lambda: second.take(session))
    first.leave(session)
    assert found.reference == "device-in-use"
    assert "a model open on of a test" in found.cause


def test_a_recast_that_the_original_does_not_take_is_the_fault_of_its_plugin() -> None:
    offered = SimpleNamespace(name="acme.raw", plugin=SimpleNamespace(release="acme 1.0"))
    bench: Any = SimpleNamespace(
        prepared=None,
        say=None,
        teller=None,
        original=None,
        target=None,
        settings=SimpleNamespace(needed_timeout_s=1.0),
        registry=SimpleNamespace(find_pass=lambda name, target: offered),
        try_step=lambda step, on, seconds: SimpleNamespace(answer=None, failure="KeyError: 'x'"),
    )
    recast = SimpleNamespace(key="key", pass_name="acme.raw", options={})
    found = refusal(lambda: Races(bench).original_for(SimpleNamespace(recast=recast)))  # type: ignore[arg-type]
    assert (found.reference, found.cause, found.package) == ("recast-failed", "KeyError: 'x'", "acme 1.0")


def test_a_runtime_that_writes_no_profile_is_named(tmp_path: Path) -> None:
    backend = SimpleNamespace(open=lambda model, target: nullcontext())
    place: Any = SimpleNamespace(target=load_registry().target("cpu"), backend=lambda: backend)
    model = Model(tmp_path / "m.onnx", "digest", (), (), {"": 17}, 9)
    assert refusal(lambda: profile_of(place, model, lambda session: (), 1.0, {})).reference == "not-profiled"


def test_two_passes_that_take_raw_samples_are_refused() -> None:
    raw = Interface(raw="acme:raw", given="acme:given", expected="acme:expected")
    given: Any = SimpleNamespace()
    comparison = Comparison(given, given, (raw, raw), given)
    assert (
        refusal(lambda: comparison.judge(given, (0,), measure_task=False, everything=False)).reference == "two-recasts"
    )


def test_a_runtime_that_is_not_right_on_the_original_is_named() -> None:
    backend: Any = SimpleNamespace(has_reference=True, name="acme", release="acme 1.0")
    found = _not_itself(0.5, backend, load_registry().target("cpu"), backend)
    assert (found.reference, found.what) == ("target-differs", "the original model is not right on cpu")


def test_a_pass_that_renames_outputs_and_does_not_say_so_is_told_in_the_kit(tmp_path: Path) -> None:
    pairs(tmp_path / "model.onnx")
    trial = Trial.of(tmp_path / "model.onnx", tmp_path / "trial", load_registry().target("cpu"), OnnxRuntimeBackend())
    graph = trial.model.ir()
    graph.graph.outputs[0].name = "renamed"
    made = save_in_store(graph, tmp_path / "store")
    assert refusal(lambda: trial.drift(PassResult(made, True))).reference == "interface-changed"


def test_a_pass_that_loses_an_input_for_adapters_is_told_which(tmp_path: Path) -> None:
    pairs(tmp_path / "model.onnx")
    made = save_in_store(read_ir(tmp_path / "model.onnx"), tmp_path / "store")
    lost = AdapterInput(TensorInfo("up", "float32", ("rank", 2)), "layer", "up")
    parent = replace(made, adapters=(lost,))
    found = refusal(lambda: checked_model(PassResult(made, True), parent, tmp_path / "store", "acme.pass"))
    assert found.reference == "adapter-input-lost"
    assert "'up' is gone" in found.cause
