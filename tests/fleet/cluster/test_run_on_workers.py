"""A run whose jobs are done by workers of dask that share no disk with it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from dask_machines import Machines, machines
from feed_models import FLOAT, build, constant, value
from onnx import helper, save

import optim
from optim._engine.recipes.lock import Lock, load_recipe_or_lock
from optim._engine.runs.run import run_settings
from optim._engine.search.explore.kernel_gains import KernelGains
from optim._engine.search.lane_costs import LaneCosts
from optim._engine.search.settings import Named, RunSettings
from optim.errors import OptimError
from optim.onnx import OnnxRuntimeBackend
from optim.passes import Stage

_INSTALLED = pytest.mark.skipif(find_spec("distributed") is None, reason="dask is not installed")
pytestmark = [pytest.mark.slow, _INSTALLED]


_SEES_ITS_OWN = """
import os, sys
hidden, own = os.environ["TEST_HIDDEN"], os.environ["TEST_OWN"]
def look(event, arguments):
    if event in ("open", "os.listdir", "os.scandir") and isinstance(arguments[0], str):
        path = os.path.abspath(arguments[0])
        if path.startswith(hidden) and not path.startswith(own):
            os.write(2, f"LOOKED AT {path}".encode())
            raise FileNotFoundError(path)
sys.addaudithook(look)
"""
"""Is imported by every Python that a worker starts: what lies on the run's machine is not there for them."""


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    """Two workers, each with its own home, cache and folder, which see nothing of what the tests write."""
    own = tmp_path_factory.mktemp("machines")
    (own / "sitecustomize.py").write_text(_SEES_ITS_OWN)
    path = os.pathsep.join([str(own), os.environ.get("PYTHONPATH", "")])
    hidden = {"TEST_HIDDEN": str(tmp_path_factory.getbasetemp()), "TEST_OWN": str(own), "PYTHONPATH": path}
    with machines(own, 2, hidden) as made:
        yield made


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(LaneCosts, "pace", 0.05)
    monkeypatch.setattr(LaneCosts, "programs", False)
    monkeypatch.setattr(KernelGains, "measures", False)
    monkeypatch.setenv("OPTIM_CACHE_DIR", str(tmp_path / "cache"))


def two_products(path: Path) -> Path:
    """Write two products with weights of 64 KiB each, which lie beside a graph in the store."""
    rng = np.random.default_rng(0)
    weights = [constant(name, rng.standard_normal((128, 128)).astype(np.float32)) for name in ("v", "w")]
    nodes = [helper.make_node("MatMul", ["x", "v"], ["h"]), helper.make_node("MatMul", ["h", "w"], ["y"])]
    save(build(nodes, [value("x", FLOAT, [1, 128])], [value("y", FLOAT, [1, 128])], weights), path)
    return path


def _not_here(_: OnnxRuntimeBackend) -> dict[str, str]:
    raise ModuleNotFoundError("No module named 'onnxruntime'")


def asked(model: Path) -> RunSettings:
    return RunSettings(
        model,
        goal="size",
        stages=(Stage.QUANTIZE,),
        named=(Named("ort.quantize-dynamic", {}),),
        max_drift=1.0,
        search_seconds=2.0,
    )


def test_its_model_is_that_of_a_run_on_one_machine(
    two: Machines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = replace(asked(two_products(tmp_path / "m.onnx")), search_seconds=60.0)  # both compare all samples
    with monkeypatch.context() as without_runtime:
        without_runtime.setattr(OnnxRuntimeBackend, "versions", _not_here)
        far = optim.run(
            settings.source,
            tmp_path / "far",
            goal="size",
            stages=["quantize"],
            passes={"ort.quantize-dynamic": {}},
            max_drift=1.0,
            search_seconds=60.0,
            cluster=two.address,
        )
    monkeypatch.setenv("OPTIM_CACHE_DIR", str(tmp_path / "another"))
    near = run_settings(settings, tmp_path / "near", print)
    assert far.result is not None and near.result is not None, (far.reason, near.reason)
    locks = [load_recipe_or_lock(tmp_path / name / "recipe.lock.toml") for name in ("far", "near")]
    assert [lock.result.model_digest for lock in locks if isinstance(lock, Lock)] == [locks[0].result.model_digest] * 2
    assert (tmp_path / "far" / "model.onnx").read_bytes() == (tmp_path / "near" / "model.onnx").read_bytes()
    assert far.result.drift == near.result.drift
    assert far.result.requirements == near.result.requirements != ()
    assert {step.status for step in far.steps if step.pass_name == "ort.quantize-dynamic"} == {"kept"}
    assert any((two.cache(place) / "models").glob("*.onnx") for place in range(2))
    logs = [two.log(place) for place in range(2)]
    assert not any("LOOKED AT" in log for log in logs)
    assert all(any(f": {kind} done, " in log for log in logs) for kind in ("prepare", "candidate", "race_job"))


def test_a_target_that_no_worker_can_time(two: Machines, tmp_path: Path) -> None:
    settings = RunSettings(two_products(tmp_path / "m.onnx"), target="openvino", cluster=two.address)
    with pytest.raises(OptimError) as caught:
        run_settings(settings, tmp_path / "out", print)
    assert caught.value.reference == "cluster-unfit"
    assert "lacks optim-clock-openvino" in caught.value.cause and "optim-clock-cpu" in caught.value.cause
