"""What a backend says is held to its contract, whoever wrote it, and what breaks it is named with the plugin."""

from __future__ import annotations

import json
import os

import numpy as np
import onnx
import pytest
import runtimes_plugin
from installed_plugin import installed
from timed_models import network, write_network

import optim
from optim._engine.backends.held import HeldBackend, HeldSession
from optim._engine.cli.main import main
from optim._engine.jobs.runner import Runner
from optim._engine.plugins.registry import load_registry
from optim._engine.runs.execute import execute
from optim._engine.search.settings import RunSettings
from optim._engine.sources.export_file import ComponentFile, export_file, write_export_file
from optim._engine.store import Store
from optim.backend import Backend, Session
from optim.errors import OptimError
from optim.jobs.process import WorkerFailed
from optim.onnx.data_files import file_digest
from optim.onnx.files import describe_model

pytestmark = pytest.mark.usefixtures("jobs_here")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runtimes")
    with installed(folder, "runtimes_plugin"):
        write_network(folder / "model.onnx", {"a": 1})
        yield folder


@pytest.fixture
def opened(folder):
    def make(name, folder=folder):
        kind = next(backend for backend in runtimes_plugin.BACKENDS if backend.name == name)
        held = HeldBackend(kind, "optim-test-runtimes 1.0", "optim-test-runtimes")
        return held.open(describe_model(folder / "model.onnx"), runtimes_plugin.target(name))

    return make


FEEDS = {"x": np.ones((6, 96), np.float32)}


def test_a_sound_one_runs(opened):
    with opened("own") as session:
        assert session.run(FEEDS)["y"].shape == (6, 96)
        assert session.executed_on == {runtimes_plugin.RUNTIME: 1.0}
        assert len(session.time_runs(FEEDS, 2)) == 2


def test_one_that_writes_into_the_models_file_is_named(tmp_path):
    class Edits(runtimes_plugin.Own):
        name = "edits"

        def open(self, model, target):
            os.utime(model.path, (1, 1))
            return super().open(model, target)

    write_network(tmp_path / "model.onnx", {"a": 1})
    model, target = describe_model(tmp_path / "model.onnx"), runtimes_plugin.target("own")
    with pytest.raises(OptimError, match=r"opening model\.onnx on own wrote into the model's file"):
        HeldBackend(Edits, "optim-test-runtimes 1.0").open(model, target)
    whole = tmp_path / f"{file_digest(model.path)}.onnx"
    model.path.rename(whole)
    HeldBackend(Edits, "optim-test-runtimes 1.0").open(describe_model(whole), target).close()  # the same bytes


def test_by_the_wall_all_sessions_of_a_backend_are_timed_by_it_whatever_they_say(folder):
    kind = next(one for one in runtimes_plugin.KINDS if one.name == "clock-slow")
    held, model = HeldBackend(kind, "optim-test-runtimes 1.0"), describe_model(folder / "model.onnx")
    target = runtimes_plugin.target("clock-slow")
    with held.open(model, target) as before, held.open(model, target) as other:
        assert before.time_runs(FEEDS, 2) == other.time_runs(FEEDS, 2) == [0.75] * 2
        held.by_wall = True
        with held.open(model, target) as after:
            assert all(max(one.time_runs(FEEDS, 2)) < 0.75 for one in (before, other, after))


@pytest.mark.parametrize("declared", [(-1, 96), (1, "seqlen"), (2, 6, 48)])
def test_a_shape_that_the_model_declares_wrongly_is_not_held_against_a_runtime(opened, tmp_path, declared):
    write_network(tmp_path / "model.onnx", {"a": 1})
    model = onnx.load(tmp_path / "model.onnx")
    del model.graph.output[:]
    model.graph.output.append(onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, declared))
    onnx.save(model, tmp_path / "model.onnx")
    with opened("own", tmp_path) as session:
        assert session.run(FEEDS)["y"].shape == (6, 96)
    with pytest.raises(OptimError, match=r"shape \[576\]"), opened("flattens", tmp_path) as session:
        session.run(FEEDS)


BROKEN = {
    "says-elsewhere": ("ran-elsewhere", "0.0% of its nodes ran on reference-evaluator, 100.0% on CPUExecutionProvider"),
    "says-nowhere": ("backend-contract", "executed_on is empty"),
    "says-half": ("backend-contract", "sum to 0.4, not to 1"),
    "widens": ("backend-contract", "output 'y' is float64, and the model says float32"),
    "renames": ("backend-contract", "a run returned y_0, and the model has y"),
    "lists": ("backend-contract", "a run returned a list, not outputs by name"),
    "flattens": ("backend-contract", "output 'y' has shape [576], and the model says [6, 96]"),
    "opens-nothing": ("backend-contract", "returned NoneType, not a Session"),
    "no-time": ("backend-contract", "time_runs returned [0.0, 0.0], not seconds above 0"),
    "lost": ("backend-failed", "RuntimeError: ERR_0x80000008: the device was lost"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_breaks_the_contract_is_named_with_its_plugin(opened, name):
    reference, cause = BROKEN[name]
    with pytest.raises(OptimError) as caught, opened(name) as session:
        session.run(FEEDS)
        session.time_runs(FEEDS, 2)
        _ = session.executed_on
    assert caught.value.reference == reference
    assert cause in caught.value.cause
    assert caught.value.package == "optim-test-runtimes 1.0"
    assert "sample" not in caught.value.fix


def test_a_runtime_that_ends_its_process_is_named_beside_the_sample(tmp_path):
    class Ended:
        """A job whose process was ended by the runtime."""

        timed, module = False, "ended"

        def start(self, request):
            raise WorkerFailed("its process ended with SIGABRT on sample 1", "crashed", doing="sample 1")

    with pytest.raises(OptimError) as caught:
        Runner(Store(tmp_path), print).need(
            Ended(), None, timeout_s=1.0, reference="prepare-failed", doing="prepare x", release="optim-test 1.0"
        )
    assert caught.value.package == "optim-test 1.0"
    assert "if these fail too, report it to the makers of the runtime" in caught.value.fix


@pytest.mark.parametrize(
    ("name", "reference"), [("nan", "only-nan"), ("says-no-limits", "backend-contract"), ("lost", "backend-failed")]
)
def test_a_run_on_it_ends_with_one_error(folder, name, reference):
    with pytest.raises(OptimError) as caught:
        execute(RunSettings(folder / "model.onnx", target=name), load_registry(), Store(), lambda text: None)
    assert caught.value.reference == reference


@pytest.mark.slow
def test_a_result_is_opened_by_the_targets_own_runtime(folder, tmp_path, capsys, monkeypatch):
    write_network(tmp_path / "model.onnx")
    words = [
        "run",
        str(tmp_path / "model.onnx"),
        "--target",
        "own",
        "-o",
        str(tmp_path / "out"),
        "--search-seconds",
        "60",
    ]
    assert main(words) == 0
    saved = json.loads((tmp_path / "out" / "session.json").read_text())
    assert (saved["provider"], saved["target"], saved["package"]) == ("", "own", "optim-test-runtimes")
    assert not (tmp_path / "out" / "load.py").exists(), "onnxruntime alone would run something else"
    with optim.load(tmp_path / "out") as session:
        assert type(session.session._session) is runtimes_plugin.OwnSession
        assert [(value.name, value.type, value.shape) for value in session.get_inputs()] == [
            ("x", "tensor(float)", (6, 96))
        ]
        (y,) = session.run(None, FEEDS)
        assert [value.name for value in session.get_outputs()] == ["y"]
    from onnx.reference import ReferenceEvaluator

    np.testing.assert_allclose(y, ReferenceEvaluator(network()).run(None, FEEDS)[0], rtol=1e-5)
    write_export_file(tmp_path / "out", export_file("m:make", {}, {"model": ComponentFile("model.onnx", {}, 0.0)}))
    with optim.load(tmp_path / "out") as session:
        assert [value.name for value in session.get_outputs()] == ["y"], "what was exported first is opened so too"
    (tmp_path / "out" / "export.json").unlink()
    monkeypatch.setenv("OPTIM_DISABLE_PLUGINS", "runtimes")
    with pytest.raises(OptimError) as caught:
        optim.load(tmp_path / "out")
    assert (caught.value.reference, caught.value.fix) == (
        "runtime-missing",
        "install optim-test-runtimes, which brings it: docs/install.md",
    )


@pytest.mark.parametrize(("contract", "wrapper"), [(Backend, HeldBackend), (Session, HeldSession)])
def test_what_a_plugin_s_class_can_say_is_asked_of_it_and_not_of_the_wrapper(contract, wrapper):
    """A method that is added to the contract and not handed on would silently have its default."""
    methods = {name for name, value in vars(contract).items() if callable(value) or isinstance(value, property)}
    public = {name for name in methods if not name.startswith("_")} - {"device"}  # the wrapper alone takes turns at it
    assert public
    assert public - vars(wrapper).keys() == set()
