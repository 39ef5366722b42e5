"""Models prepared for NVIDIA's GPUs on a machine without one: plans, graphs and settings, all marked so."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest
from ort_models import DATA, context, export, feeds_for, names_and_shapes, relative_l2

from optim import Model, Target
from optim._engine.cli.main import main
from optim._engine.plugins.registry import load_registry
from optim._engine.runs.run import run_settings
from optim._engine.search.plan import make_plan
from optim._engine.search.settings import Named, RunSettings
from optim.options import parse_options
from optim.providers import CUDA, TENSORRT

SIZES = {"bert": {"batch": 2, "sequence": 8}, "gpt2": {"batch": 1, "sequence": 4}, "llama": {"batch": 1, "sequence": 4}}
CHAINS = {
    "cuda-offline": ("ort.clean", "ort.fuse-transformer", "ort.convert-float16", "cuda.tune-provider"),
    "tensorrt-offline": ("ort.clean", "tensorrt.prepare", "tensorrt.quantize", "tensorrt.tune-provider"),
}
TUNED = {"cuda.tune-provider": {"tf32": True}, "tensorrt.tune-provider": {"precision": "float16"}}
BUDGET = {"cuda-offline": 0.01, "tensorrt-offline": 0.15}


def _planned(target: str) -> list[str]:
    registry = load_registry()
    plan = make_plan(RunSettings(Path("m.onnx"), target=target), registry, registry.target(target))
    return [one.name for passes in plan.stages.values() for one in passes]


@pytest.mark.parametrize("target", CHAINS)
def test_the_plan_without_a_gpu_is_that_with_one(target: str) -> None:
    assert _planned(target) == _planned(target.removesuffix("-offline"))
    assert set(CHAINS[target]) <= set(_planned(target))


def _apply(name: str, model: Model, folder: Path, target: Target, samples: list[dict[str, object]]) -> Model:
    pass_class = load_registry().find_pass(name, target).over_models
    if not pass_class().applicable(model, target):
        return model
    given = context(folder, samples)  # type: ignore[arg-type]
    given.target = target
    return pass_class().apply(model, parse_options(pass_class, TUNED.get(name, {})), given).model


@pytest.mark.parametrize("target", CHAINS)
@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "convnet"])
def test_graphs_and_settings_are_made_pass_the_checker_and_run_on_the_cpu(
    tmp_path: Path, name: str, target: str
) -> None:
    place = load_registry().target(target).plain
    original = model = export(f"{name}.dynamo", tmp_path)
    samples = [feeds_for(f"{name}.dynamo", **SIZES.get(name, {}))]
    for one in CHAINS[target]:
        model = _apply(one, model, tmp_path, place, samples)
    onnx.checker.check_model(str(model.path))
    assert names_and_shapes(model) == names_and_shapes(original)
    pairs = target.startswith("tensorrt")
    assert relative_l2(original, model, samples[0], as_written=pairs) < BUDGET[target]
    tuned = model.session.provider_options[CUDA if target.startswith("cuda") else TENSORRT]
    if pairs:
        assert "EPContext" not in {node.op_type for node in onnx.load(model.path).graph.node}
        assert tuned["trt_fp16_enable"] == "True"
        assert "trt_profile_max_shapes" in tuned
    else:
        assert tuned == {"use_tf32": "1"}
        kinds = {one.data_type for one in onnx.load(model.path).graph.initializer}
        assert onnx.TensorProto.FLOAT16 in kinds


@pytest.mark.slow
@pytest.mark.usefixtures("jobs_here")
def test_a_run_says_that_nothing_ran_on_a_gpu_and_keeps_the_settings_for_one(tmp_path: Path) -> None:
    chain = (
        Named("tensorrt.prepare", {}),
        Named("tensorrt.quantize", {"calibration": "mse"}),
        Named("tensorrt.tune-provider", {"precision": "float16"}),
    )
    settings = RunSettings(DATA / "convnet.dynamo.onnx", target="tensorrt-offline", chain=chain, max_drift=0.1)
    run_settings(settings, tmp_path / "out", lambda _text: None)
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["target"] == "tensorrt-offline"
    assert any("nothing was run on a GPU" in note for note in report["notes"])
    assert report["machine"]["device"] == ""
    session = json.loads((tmp_path / "out" / "session.json").read_text())
    assert session["provider"] == "CPUExecutionProvider"
    assert session["tuned_provider_options"][TENSORRT]["trt_int8_enable"] == "True"


def test_a_plan_needs_no_device_and_says_so(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(DATA / "convnet.dynamo.onnx"), "--target", "tensorrt", "--dry-run", "--json"]) == 0
    said = json.loads(capfd.readouterr().out)
    assert "tensorrt.prepare" in [one["pass"] for one in said["passes"]]
    assert said["unavailable"]


def test_a_run_on_a_gpu_that_is_not_here_is_one_clear_error(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(DATA / "convnet.dynamo.onnx"), "--target", "cuda"]) == 5
    assert "target-unavailable" in capfd.readouterr().err
