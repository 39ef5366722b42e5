from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

import optim
from optim._engine.runs.folder import RunFolder
from optim._engine.runs.session_file import SessionFile, write_session_files
from optim._engine.runs.session_trust import read_session_file
from optim.errors import OptimError
from optim.model import SessionConfig
from optim.target import Target

CPU = Target("cpu", "onnxruntime", "CPUExecutionProvider", {"use_arena": "0"})
TUNED = SessionConfig(
    {
        "graph_optimization_level": "ORT_ENABLE_BASIC",
        "execution_mode": "ORT_PARALLEL",
        "intra_op_num_threads": 1,
        "enable_mem_pattern": False,
    },
    {"session.inter_op.allow_spinning": "0"},
    ("ConstantFolding",),
)

USE_THE_SCRIPT = """
import json, sys, runpy, numpy
session = runpy.run_path(sys.argv[1])["load"]()
options = session.get_session_options()
print(json.dumps({
    "y": session.run(None, {"x": numpy.ones((1, 4), numpy.float32)})[0].tolist(),
    "level": options.graph_optimization_level.name,
    "mode": options.execution_mode.name,
    "threads": options.intra_op_num_threads,
    "pattern": options.enable_mem_pattern,
    "spinning": options.get_session_config_entry("session.inter_op.allow_spinning"),
    "providers": session.get_providers(),
    "optim": "optim" in sys.modules,
}))
"""


def write_model(folder: Path) -> None:
    """y = x @ w, after a sum of two constants that the runtime folds unless that is switched off."""
    ends = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, ["batch", s]) for n, s in (("x", 4), ("y", 2))]
    two = [onnx.numpy_helper.from_array(np.full((4, 2), v, np.float32), n) for v, n in ((1.0, "a"), (2.0, "b"))]
    nodes = [helper.make_node("Add", ["a", "b"], ["w"]), helper.make_node("MatMul", ["x", "w"], ["y"])]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], two)
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, ir_version=8, opset_imports=opset), folder / "model.onnx")


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    def write(folder: Path) -> None:
        write_model(folder)
        write_session_files(folder, SessionFile.of(TUNED, CPU))

    RunFolder.claim(tmp_path / "run").publish(write)
    return tmp_path / "run"


def test_session_json_has_its_keys_and_reads_back(run_folder):
    saved = json.loads((run_folder / "session.json").read_text())
    keys = {"provider", "provider_options", "session_options", "session_config", "disabled_optimizers"}
    assert set(saved) == {*keys, "operator_libraries"}
    assert saved["session_options"]["graph_optimization_level"] == "ORT_ENABLE_BASIC"
    found = read_session_file(run_folder)
    assert found.config == TUNED
    assert (found.provider, found.provider_options) == ("CPUExecutionProvider", {"use_arena": "0"})


def test_load_py_opens_the_tuned_session_with_onnxruntime_alone(run_folder, tmp_path):
    called = subprocess.run(
        [sys.executable, "-c", USE_THE_SCRIPT, str(run_folder / "load.py")],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    assert json.loads(called.stdout) == {
        "y": [[12.0, 12.0]],
        "level": "ORT_ENABLE_BASIC",
        "mode": "ORT_PARALLEL",
        "threads": 1,
        "pattern": False,
        "spinning": "0",
        "providers": ["CPUExecutionProvider"],
        "optim": False,
    }


def test_load_py_as_a_script_prints_the_inputs(run_folder):
    called = subprocess.run(
        [sys.executable, run_folder / "load.py"], capture_output=True, text=True, check=True, cwd="/"
    )
    assert called.stdout == "x tensor(float) ['batch', 4]\n"


def optimized_nodes(folder: Path, disabled: list[str], tmp_path: Path) -> int:
    saved = json.loads((folder / "session.json").read_text())
    saved["session_options"]["optimized_model_filepath"] = str(tmp_path / "optimized.onnx")
    saved["disabled_optimizers"] = disabled
    (folder / "session.json").write_text(json.dumps(saved))
    subprocess.run([sys.executable, folder / "load.py"], check=True, capture_output=True)
    return len(onnx.load(tmp_path / "optimized.onnx").graph.node)


def test_load_py_switches_off_the_named_optimizers_of_the_runtime(run_folder, tmp_path):
    assert optimized_nodes(run_folder, ["ConstantFolding"], tmp_path) == 2
    assert optimized_nodes(run_folder, [], tmp_path) == 1


def test_optim_load_opens_the_same_session(run_folder):
    session = optim.load(run_folder)
    options = session.get_session_options()
    assert options.graph_optimization_level == onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    assert options.intra_op_num_threads == 1
    assert options.get_session_config_entry("session.inter_op.allow_spinning") == "0"
    np.testing.assert_array_equal(session.run(None, {"x": np.ones((1, 4), np.float32)})[0], [[12.0, 12.0]])


@pytest.mark.parametrize("make", [lambda path: None, lambda path: path.mkdir()])
def test_a_folder_that_no_run_wrote_is_refused(tmp_path, make):
    make(tmp_path / "other")
    with pytest.raises(OptimError, match="not-a-run-folder"):
        optim.load(tmp_path / "other")


def test_a_run_without_a_model_says_so(tmp_path):
    RunFolder.claim(tmp_path / "run").publish(lambda folder: (folder / "report.json").touch())
    with pytest.raises(OptimError, match="no-model"):
        optim.load(str(tmp_path / "run"))


@pytest.mark.parametrize("text", ["{", '{"provider": 3}', "[]"])
def test_a_session_json_that_somebody_broke_is_named(run_folder, text):
    (run_folder / "session.json").write_text(text)
    with pytest.raises(OptimError, match="bad-session-file"):
        optim.load(run_folder)


@pytest.mark.parametrize(
    "said",
    [
        {"session_options": {"optimized_model_filepath": "victim"}},
        {"session_options": {"profile_file_prefix": "victim", "enable_profiling": True}},
        {"session_config": {"session.optimized_model_external_initializers_file_name": "victim"}},
        {"session_config": {"ep.context_enable": "1", "ep.context_file_path": "victim"}},
        {"library": "planted"},
        {"operator_libraries": ["planted"]},
        {"provider_options": {"backend_path": "./planted.so"}},
        {"provider_options": {"profiling_file_path": "victim"}, "provider": "QNNExecutionProvider"},
        {"provider_options": {"backend_path": "planted.so"}, "provider": "QNNExecutionProvider"},
        {"provider_options": {"cache_dir": "victim"}, "provider": "OpenVINOExecutionProvider"},
    ],
)
def test_a_session_json_from_a_stranger_names_no_file_and_no_code(run_folder, monkeypatch, said):
    monkeypatch.chdir(run_folder)
    (run_folder / "planted.py").write_text("open('victim', 'w').close()\ndef get_library_path(): return ''\n")
    saved = json.loads((run_folder / "session.json").read_text())
    (run_folder / "session.json").write_text(json.dumps({**saved, **said}))
    with pytest.raises(OptimError, match="untrusted-setting") as caught:
        optim.load(run_folder)
    name = next(iter(next(iter(said.values())))) if not isinstance(next(iter(said.values())), str) else "planted"
    assert name in caught.value.cause
    assert not (run_folder / "victim").exists()


@pytest.mark.slow
@pytest.mark.parametrize("way", ["load.py", "optim.load", "optim bench"])
def test_the_runtime_leaves_nothing_of_its_own_in_the_users_folders(run_folder, tmp_path, way):
    """onnxruntime 1.31 writes a device id and a database of events as soon as it is imported."""
    arguments = {
        "load.py": [run_folder / "load.py"],
        "optim.load": ["-c", f"import optim; optim.load({str(run_folder)!r})"],
        "optim bench": ["-m", "optim", "bench", run_folder, run_folder, "--seconds", "0.1"],
    }[way]
    folders = {name: tmp_path / name.lower() for name in ("HOME", "XDG_CACHE_HOME", "TMPDIR")}
    for folder in folders.values():
        folder.mkdir()
    environment = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    environment |= {name: str(folder) for name, folder in folders.items()} | {"OPTIM_CACHE_DIR": str(tmp_path / "own")}
    done = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    left = [str(path.relative_to(tmp_path)) for folder in folders.values() for path in folder.rglob("*")]
    assert [path for path in left if "optim" not in path] == []


def test_a_provider_that_is_not_there_is_an_error_and_no_silent_cpu(run_folder):
    saved = json.loads((run_folder / "session.json").read_text())
    saved |= {"provider": "TensorrtExecutionProvider", "provider_options": {}}
    (run_folder / "session.json").write_text(json.dumps(saved))
    with pytest.raises(OptimError, match="provider-missing"):
        optim.load(run_folder)
    called = subprocess.run([sys.executable, run_folder / "load.py"], capture_output=True, text=True, check=False)
    assert called.returncode != 0
    assert "fallback to CPU EP has been explicitly disabled" in called.stderr
