"""A vendor of a device that takes one program at a time, with a runtime and a compiler of its own, from ``pip install``
to ``optim.load`` and to a deployment that has no optim.
"""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from fresh_environment import HERE, fresh_environment
from onnx.reference import ReferenceEvaluator

from optim.onnx import describe_model
from optim_testing import models

pytestmark = pytest.mark.slow


PAGE = (HERE.parents[1] / "docs" / "volt.md").read_text(encoding="utf-8")
BLOCKS = [block.partition("```")[0] for block in PAGE.split("```python\n")[1:]]


@pytest.mark.parametrize(("head", "file"), [("    exclusive = True", "backend"), ("class Compile", "compile_pass")])
def test_the_how_to_shows_volts_own_lines(head, file):
    (block,) = (one for one in BLOCKS if head in one)
    source = (HERE / "volt" / "src" / "optim_volt" / f"{file}.py").read_text(encoding="utf-8")
    assert set(block.splitlines()) <= set(source.splitlines())


def test_the_pass_of_the_how_to_fixes_sizes(tmp_path):
    found = {}
    exec(next(one for one in BLOCKS if "class FixBatch" in one), found)
    fixing, model, fixed = found["FixBatch"](), *map(describe_model, (models.mlp(tmp_path), models.fixed_mlp(tmp_path)))
    assert [info.shape for info in fixing.inputs_for(None, model)] == [(1, 32)]
    assert fixing.applicable(model, None).yes
    assert fixing.applicable(fixed, None).reason == "its sizes are fixed"
    context = SimpleNamespace(save=lambda graph, before: replace(before, digest=repr(graph.graph.inputs[0].shape)))
    assert "[1,32]" in fixing.apply(model, None, context).model.digest.replace(" ", "")


@pytest.fixture(scope="module")
def environment():
    return fresh_environment()


@pytest.fixture(scope="module")
def made(environment, tmp_path_factory):
    """A run for the device."""
    folder = tmp_path_factory.mktemp("volt")
    model = models.mlp(folder)
    done = environment.run(
        *("optim", "run", str(model), "--target", "volt", "-o", str(folder / "out"), "--search-seconds", "60"),
        OPTIM_CACHE_DIR=str(folder / "cache"),
        VOLT_DEVICE=str(folder / "device"),
        OPTIM_DISABLE_PLUGINS="broken-cycle,broken-exit",
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return folder


def test_the_program_is_compiled_carried_and_checked(made):
    report = json.loads((made / "out" / "report.json").read_text())
    assert [step["pass"] for step in report["steps"] if step["status"] == "kept"] == ["volt.compile"]
    assert report["result"]["executed_on"] == {"volt-runtime": 1.0}
    assert report["result"]["latency_ms"] > 0
    assert [(check["name"], check["status"]) for check in report["checks"]] == [("opens on the device", "passed")]
    assert (made / "out" / "model.onnx.program.volt").stat().st_size > 1000
    assert json.loads((made / "out" / "volt.json").read_text())["program"] == "model.onnx.program.volt"
    assert json.loads((made / "out" / "session.json").read_text())["target"] == "volt"


@pytest.mark.parametrize("way", ["optim.load", "load.py"])
def test_the_result_runs_on_the_device_and_computes_the_same(environment, made, tmp_path, way):
    feeds = np.random.default_rng(1).standard_normal((3, 32)).astype(np.float32)
    np.save(tmp_path / "x.npy", feeds)
    out = made / "out"
    scripts = {
        "optim.load": f"import optim; (y,) = optim.load({str(out)!r}).run(None, {{'x': x}})",
        "load.py": f"import runpy; y = runpy.run_path({str(out / 'load.py')!r})['load']().run({{'x': x}})['y']",
    }
    script = f"import numpy as np; x = np.load('x.npy'); {scripts[way]}; np.save('y.npy', y)"
    script += "; import sys; assert 'onnxruntime' not in sys.modules"
    if way == "load.py":
        script += " and 'optim' not in sys.modules"
    done = environment.run("python", "-c", script, cwd=tmp_path, VOLT_DEVICE=str(tmp_path / "device"))
    assert done.returncode == 0, done.stderr
    (expected,) = ReferenceEvaluator(str(made / "mlp.onnx")).run(None, {"x": feeds})
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), expected, rtol=1e-4, atol=1e-5)


def test_a_model_that_the_device_cannot_run_is_one_error_of_the_vendor(environment, tmp_path):
    model = models.encoder(tmp_path)
    done = environment.run(
        *("optim", "run", str(model), "--target", "volt", "-o", str(tmp_path / "out")),
        OPTIM_CACHE_DIR=str(tmp_path / "cache"),
        OPTIM_DISABLE_PLUGINS="broken-cycle,broken-exit",
    )
    assert done.returncode == 3
    assert "error[volt-operator]: the original model does not run on volt" in done.stderr
    assert "it has no Gather at node Gather_e" in done.stderr
    assert "from:  optim-plugin-volt 1.4.0" in done.stderr


def test_volts_backend_and_pass_hold_every_promise(environment, tmp_path):
    command = ("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "pyproject.toml", "tests")
    done = environment.run(*command, cwd=HERE / "volt", VOLT_DEVICE=str(tmp_path / "device"))
    assert done.returncode == 0, done.stdout
