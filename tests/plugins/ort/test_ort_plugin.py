"""What the plugin ``ort`` offers, and what it costs to ask."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from onnx import helper
from ort_models import CPU, apply, build, context, export, random_weight

from optim import Model, OptimError, Pass, Role, Target
from optim.options import PassOptions, options_class
from optim_plugins.ort import plugin
from optim_plugins.ort.fuse.fuse_transformer import FuseTransformer
from optim_plugins.ort.fuse.fuse_transformer_options import FuseTransformerOptions
from optim_plugins.ort.plugin import OrtBackend
from optim_plugins.ort.prepare.fix_shapes import FixShapes
from optim_plugins.ort.quantize.dynamic.quantize_dynamic import QuantizeDynamic
from optim_plugins.ort.quantize.static.quantize_static import QuantizeStatic
from optim_plugins.ort.quantize.weights.quantize_weights import QuantizeWeights
from optim_plugins.ort.tune.tune_session import TuneSession

_HEAVY = ("numpy", "onnx", "onnx_ir", "onnxscript", "onnxruntime", "pydantic", "torch")


def _passes(target: Target) -> Sequence[type[Pass]]:
    return [*plugin.optim_fuse(target), *plugin.optim_quantize(target), *plugin.optim_tune(target)]


def test_asking_what_it_offers_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom optim_plugins.ort import plugin\n"
        "target = plugin.optim_targets()[0]\ntarget.unavailable()\nplugin.optim_backends()\n"
        "plugin.optim_fuse(target), plugin.optim_quantize(target), plugin.optim_tune(target)\n"
        f"print(sorted(set(sys.modules) & set({_HEAVY!r})))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_cpu_is_available_where_the_runtime_is_installed() -> None:
    target = plugin.optim_targets()[0]
    assert (target.name, target.backend, target.provider) == ("cpu", "ort", "CPUExecutionProvider")
    assert target.unavailable() is None


def test_a_missing_runtime_is_the_reason_why_the_cpu_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    assert "pip install" in (plugin.CPU.unavailable() or "")


@pytest.mark.parametrize("pass_class", _passes(CPU), ids=lambda one: one.name)
def test_every_pass_says_what_it_is_and_describes_its_options(pass_class: type[Pass]) -> None:
    assert pass_class.name.startswith("ort.")
    assert pass_class.summary
    options = options_class(pass_class)
    assert issubclass(options, PassOptions)
    assert all(field.description for field in options.model_fields.values())
    is_repaired = pass_class.lossy and pass_class.role is Role.IMPROVE
    assert not is_repaired or "keep" in options.model_fields


def test_other_runtimes_are_offered_what_writes_no_operator() -> None:
    assert set(_passes(Target("volt", "ort", runtime="volt-runtime"))) == {FixShapes}


@pytest.mark.parametrize(
    ("target", "offered", "not_offered"),
    [
        (Target("web", "ort-web", "wasm"), {FuseTransformer, QuantizeDynamic, FixShapes, TuneSession}, set()),
        (Target("web", "ort-web", "wasm", prepares_for="webgpu"), {FuseTransformer, QuantizeWeights}, {QuantizeStatic}),
        (Target("gpu", "gpu", "CUDAExecutionProvider"), {FuseTransformer, QuantizeWeights}, {QuantizeStatic}),
        (Target("gpu", "gpu", CPU.provider, prepares_for="CUDAExecutionProvider"), {QuantizeWeights}, {QuantizeStatic}),
        (Target("trt", "trt", "TensorrtExecutionProvider"), {FixShapes}, {FuseTransformer, QuantizeWeights}),
        (
            Target("qnn-offline", "qnn-offline", CPU.provider, prepares_for="QNNExecutionProvider"),
            {FixShapes},
            {FuseTransformer},
        ),
    ],
    ids=lambda one: one.name if isinstance(one, Target) else "",
)
def test_what_a_provider_reads_is_offered_whatever_backend_runs_it(
    target: Target, offered: set[type[Pass]], not_offered: set[type[Pass]]
) -> None:
    assert offered <= set(_passes(target))
    assert not not_offered & set(_passes(target))


def test_fusions_are_those_of_the_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[bool] = []

    def fuse(
        model: Model, chosen: FuseTransformerOptions, scratch: Path, *, use_gpu: bool
    ) -> tuple[Path, dict[str, int], tuple[str, ...]]:
        told.append(use_gpu)
        return model.path, {}, ()

    monkeypatch.setattr("optim_plugins.ort.fuse.fusions_onnxruntime.fuse", fuse)
    model = export("bert.dynamo", tmp_path)
    gpu = replace(CPU, provider="CUDAExecutionProvider")
    for target in (CPU, gpu):
        given = context(tmp_path)
        given.target = target
        FuseTransformer().apply(model, FuseTransformerOptions(engine="onnxruntime"), given)
    assert told == [False, True]
    best = [next(iter(FuseTransformer().candidates(model, target, context(tmp_path)))) for target in (CPU, gpu)]
    assert [one.leave_out for one in best] == [("skip_layer_normalization", "attention"), ()]


def test_the_backend_runs_a_model_and_says_where(tmp_path: Path) -> None:
    model = build(tmp_path, [helper.make_node("Tanh", ["x"], ["y"])], {}, {"x": ["n"]}, {"y": ["n"]})
    with OrtBackend().open(model, CPU) as session:
        outputs = session.run({"x": random_weight(3), "no_longer_an_input": random_weight(1)})
        assert list(outputs) == ["y"]
        assert session.executed_on == {"CPUExecutionProvider": 1.0}


def test_a_model_that_the_runtime_refuses_is_one_clear_error(tmp_path: Path) -> None:
    model = build(tmp_path, [helper.make_node("Tanh", ["x"], ["y"])], {}, {"x": ["n"]}, {"y": ["n"]})
    model.path.write_bytes(model.path.read_bytes().replace(b"Tanh", b"Tahn"))
    with pytest.raises(OptimError) as caught:
        OrtBackend().open(model, CPU)
    assert caught.value.reference == "session-failed"
    assert "Tahn" in caught.value.cause


def test_threads_of_the_harness_never_reach_the_model(tmp_path: Path) -> None:
    model = build(tmp_path, [helper.make_node("Tanh", ["x"], ["y"])], {}, {"x": ["n"]}, {"y": ["n"]})
    tuned = apply(TuneSession, model, tmp_path, level="basic").model
    OrtBackend().open(tuned, CPU).close()
    assert not tuned.session.session_config


def test_equivalent_settings_all_open_and_differ(tmp_path: Path) -> None:
    model = build(tmp_path, [helper.make_node("Tanh", ["x"], ["y"])], {}, {"x": ["n"]}, {"y": ["n"]})
    settings = OrtBackend().equivalent_settings(CPU)
    assert len({str(one) for one in settings}) == len(settings) >= 3
    for one in settings:
        OrtBackend().open(model.with_session(one), CPU).close()


def test_versions_name_the_build_that_is_installed() -> None:
    (name,) = OrtBackend().versions()
    assert name in ("onnxruntime", "onnxruntime-gpu")
