"""``optim deliver`` and ``--deliver``: what is left on the disk, what is said, and what is refused."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper

import optim
from optim import Model, OptimError, SessionConfig
from optim._engine.cli.main import optim as command
from optim._engine.runs.session_file import SessionFile, write_session_files
from optim._engine.sources.export_file import ComponentFile, export_file, write_export_file
from optim.errors import ExitStatus
from optim.layout import Laid, Layout, Result, place_graph
from optim.onnx.files import describe_model
from optim.onnx.sessions import PLAIN_CPU
from optim_plugins.layouts import plugin
from optim_plugins.layouts.carried_settings import disabled_as_config, not_carried
from optim_testing import models

OPENER = """
def missing():
    return {missing!r}

def open_and_run(folder, samples, told):
    {first}
    import onnxruntime
    session = onnxruntime.InferenceSession(folder / "net.onnx")
    return "a viewer", [{{"y": session.run(None, one)[0] * {times}}} for one in samples]
"""


class Viewer(Layout):
    """A layout with no place for any setting."""

    name = "viewer"
    summary = "for these tests"
    consumer = "pip install viewer"
    opener = Path("opener.py")

    def write(self, result, folder, options):
        place_graph(result, folder / "net.onnx")
        return Laid("net.onnx")


def write_model(path):
    """y = x @ (a + b): the runtime folds the sum, unless that is switched off."""
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["batch", s]) for n, s in (("x", 4), ("y", 2))]
    two = [onnx.numpy_helper.from_array(np.full((4, 2), v, np.float32), n) for v, n in ((1.0, "a"), (2.0, "b"))]
    nodes = [helper.make_node("Add", ["a", "b"], ["w"]), helper.make_node("MatMul", ["x", "w"], ["y"])]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], two)
    onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]), path)


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPTIM_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory, cache, jobs_here):
    folder = tmp_path_factory.mktemp("run")
    write_model(folder / "model.onnx")
    optim.run(folder / "model.onnx", folder / "out", stages=["post-process"], search_seconds=0)
    return folder / "out"


@pytest.fixture
def viewer(tmp_path, monkeypatch):
    """Has the plugin offer the layout, with a consumer that does as it is told."""

    def offered(missing="", times=1, first="pass"):
        Viewer.opener = tmp_path / "opener.py"
        Viewer.opener.write_text(OPENER.format(missing=missing, times=times, first=first))
        monkeypatch.setattr(plugin, "LAYOUTS", (Viewer,))
        return Viewer

    return offered


def left_in(folder):
    return sorted(entry.name for entry in folder.iterdir() if entry.name != "opener.py")


@pytest.mark.slow
def test_what_is_opened_and_right_is_there_with_its_figures(run_folder, viewer, tmp_path):
    viewer()
    report = optim.deliver(run_folder, "viewer", tmp_path / "out")
    assert (report.status, report.text, report.baked, report.cost) == ("opened", "by a viewer", "", None)
    assert report.drift <= report.tolerance
    written = json.loads((tmp_path / "out" / "delivery.json").read_text())
    assert written == json.loads(report.model_copy(update={"folder": "."}).model_dump_json())
    assert left_in(tmp_path) == ["out"]


def test_without_its_consumer_it_is_written_and_marked(run_folder, viewer, tmp_path):
    viewer(missing="viewer is not installed")
    report = optim.deliver(run_folder, "viewer", tmp_path / "out")
    assert report.status == "not-opened"
    assert "viewer is not installed; pip install viewer" in report.line
    assert (tmp_path / "out" / "net.onnx").is_file()


@pytest.mark.parametrize(
    ("consumer", "reference"),
    [
        ({"times": 1.01}, "layout-differs"),
        ({"first": "raise ValueError('no such version')"}, "no such version"),
        ({"first": "import os; os._exit(7)"}, "exit status 7"),
        ({"first": "return 'a viewer', []"}, "samples it gave outputs for 0"),
        ({"first": "return 'a viewer', [{'z': one['x']} for one in samples]"}, "it gives z, and the result y"),
    ],
)
def test_a_consumer_that_does_something_else_leaves_nothing(run_folder, viewer, tmp_path, consumer, reference):
    viewer(**consumer)
    with pytest.raises(OptimError, match=reference):
        optim.deliver(run_folder, "viewer", tmp_path / "out")
    assert left_in(tmp_path) == []


def test_a_consumer_that_hangs_is_ended(run_folder, viewer, tmp_path, monkeypatch):
    monkeypatch.setattr("optim.layout.opening._OPEN_S", 0.5)
    viewer(first="import time; time.sleep(60)")
    with pytest.raises(OptimError, match="it was not done within 0 s"):
        optim.deliver(run_folder, "viewer", tmp_path / "out")


@pytest.mark.parametrize("hook", ["refuse", "write", "samples", "expected"])
def test_a_layout_that_breaks_names_its_plugin(run_folder, viewer, tmp_path, monkeypatch, hook):
    monkeypatch.setattr(viewer(), hook, lambda *_: 1 // 0)
    with pytest.raises(OptimError, match="ZeroDivisionError") as refused:
        optim.deliver(run_folder, "viewer", tmp_path / "out")
    assert refused.value.reference == "layout-failed"
    assert refused.value.package.startswith("optim-plugins ")
    assert left_in(tmp_path) == []


@pytest.mark.parametrize(
    ("hook", "given", "said"),
    [("write", None, "write returned NoneType, not Laid"), ("samples", [], r"samples returned 0 for \d")],
)
def test_a_layout_that_breaks_its_contract_names_its_plugin(
    run_folder, viewer, tmp_path, monkeypatch, hook, given, said
):
    monkeypatch.setattr(viewer(), hook, lambda *_: given)
    with pytest.raises(OptimError, match=said) as refused:
        optim.deliver(run_folder, "viewer", tmp_path / "out")
    assert refused.value.package.startswith("optim-plugins ")
    assert left_in(tmp_path) == []


@pytest.mark.skipif(os.name == "nt", reason="what may be run is told by a file's mode")
@pytest.mark.parametrize(("mode", "said"), [(0o600, "cannot be started"), (0o700, "ended without an answer")])
def test_what_is_no_python_opens_nothing(run_folder, viewer, tmp_path, mode, said):
    viewer()
    (tmp_path / "python").write_text("#!/bin/sh\n")
    (tmp_path / "python").chmod(mode)
    with pytest.raises(OptimError, match=said) as refused:
        optim.deliver(run_folder, "viewer", tmp_path / "out", opened_by=tmp_path / "python")
    assert refused.value.reference == "layout-not-opened"
    assert left_in(tmp_path) == ["python"]


def test_a_layout_in_the_run_folder_that_cannot_be_opened_costs_the_run_nothing(viewer, tmp_path, monkeypatch):
    monkeypatch.setattr(viewer(), "in_place", True)
    write_model(tmp_path / "model.onnx")
    (tmp_path / "python").touch(0o600)
    report = optim.run(
        tmp_path / "model.onnx",
        tmp_path / "out",
        stages=["post-process"],
        search_seconds=0,
        deliver=["viewer"],
        opened_by=tmp_path / "python",
    )
    (laid,) = report.layouts
    assert (laid.status, "cannot be started" in laid.text) == ("failed", True)
    assert (tmp_path / "out" / "model.onnx").is_file()
    assert not (tmp_path / "out" / "net.onnx").exists()


def test_a_full_disk_leaves_nothing_half_written(run_folder, viewer, tmp_path, monkeypatch):
    def full(self, result, folder, options):
        (folder / "half").write_text("x")
        raise OSError(errno.ENOSPC, "No space left on device", str(folder / "net.onnx"))

    monkeypatch.setattr(viewer(), "write", full)
    with pytest.raises(OptimError, match="disk-full"):
        optim.deliver(run_folder, "viewer", tmp_path / "out")
    assert left_in(tmp_path) == []


def test_a_name_that_is_taken_is_refused(run_folder, viewer, tmp_path):
    viewer()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    for name in ("out", "file"):
        with pytest.raises(OptimError, match="folder-taken"):
            optim.deliver(run_folder, "viewer", tmp_path / name)
    assert left_in(tmp_path / "out") == ["mine.txt"]
    (tmp_path / "out" / "mine.txt").unlink()
    assert optim.deliver(run_folder, "viewer", tmp_path / "out").status == "opened"  # an empty folder is none of yours


def test_what_is_no_run_folder_is_refused(viewer, tmp_path):
    viewer()
    write_model(tmp_path / "model.onnx")
    (tmp_path / "recipe.lock.toml").write_text('target = "cpu"\n')  # a recipe, and no lock
    for folder in (tmp_path, tmp_path / "absent"):
        with pytest.raises(OptimError, match="not-a-run-folder"):
            optim.deliver(folder, "viewer", tmp_path / "out")


def test_what_a_layout_lacks_is_said_before_anything_is_written(run_folder, viewer, tmp_path, monkeypatch):
    monkeypatch.setattr(viewer(), "refuse", lambda *_: "there is no tokenizer.json")
    with pytest.raises(OptimError, match="layout-refused") as refused:
        optim.deliver(run_folder, "viewer", tmp_path / "out")
    assert refused.value.cause == "there is no tokenizer.json"
    assert refused.value.status is ExitStatus.USAGE
    assert left_in(tmp_path) == []


def test_a_folder_of_several_components_says_which_they_are(viewer, tmp_path):
    viewer()
    parts = {name: ComponentFile(f"{name}/model.onnx") for name in ("encoder", "decoder")}
    write_export_file(tmp_path, export_file("it", {}, parts))
    with pytest.raises(OptimError, match="its components are encoder, decoder") as refused:
        optim.deliver(tmp_path, "viewer", tmp_path / "out")
    assert refused.value.reference == "layout-of-several"


def test_an_export_is_delivered_without_a_run(viewer, tmp_path):
    viewer()
    (tmp_path / "exported").mkdir()
    write_model(tmp_path / "exported" / "model.onnx")
    write_export_file(tmp_path / "exported", export_file("it", {}, {"model": ComponentFile("model.onnx")}))
    assert optim.deliver(tmp_path / "exported", "viewer", tmp_path / "out").status == "opened"


@pytest.mark.parametrize(
    ("words", "reference"),
    [
        (["--layout", "vewer"], "unknown-layout"),
        (["--layout", "viewer:tag='x'"], "unknown-option"),
        (["--layout", "viewer:tag="], "bad-option"),
        (["--layout", "viewer", "--files", "absent"], "no-such-files"),
        (["--layout", "viewer", "--python", "absent"], "no-such-files"),
    ],
)
def test_words_that_make_no_sense_are_refused(run_folder, viewer, tmp_path, words, reference):
    viewer()
    found = CliRunner().invoke(command, ["deliver", str(run_folder), *words, "-o", str(tmp_path / "out")])
    assert found.exception.reference == reference
    assert found.exception.status is ExitStatus.USAGE


@pytest.mark.slow
def test_texts_come_back_from_a_consumer_as_they_are(viewer, tmp_path):
    viewer()
    ends = [helper.make_tensor_value_info(name, TensorProto.STRING, ["batch"]) for name in "xy"]
    words = {"keys_strings": ["a", "b"], "values_strings": ["A", "B"]}
    nodes = [helper.make_node("LabelEncoder", ["x"], ["y"], domain="ai.onnx.ml", **words)]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    onnx.save(helper.make_model(graph, ir_version=8, opset_imports=opsets), tmp_path / "model.onnx")
    data = [{"x": np.array(["a", "b"])}]
    report = optim.run(
        tmp_path / "model.onnx", tmp_path / "out", stages=["post-process"], data=data, deliver=["viewer"]
    )
    assert report.layouts[0].status == "opened", report.layouts[0].text
    viewer(first="return 'a viewer', [{'y': one['x']} for one in samples]")
    with pytest.raises(OptimError, match="layout-differs"):
        optim.deliver(tmp_path / "out", "viewer", tmp_path / "other", data=data)


def test_a_run_lays_its_result_out_beside_the_model(viewer, tmp_path):
    viewer()
    write_model(tmp_path / "model.onnx")
    words = ["run", str(tmp_path / "model.onnx"), "-o", str(tmp_path / "out"), "--stage", "post-process"]
    found = CliRunner().invoke(command, [*words, "--search-seconds", "0", "--deliver", "viewer"])
    assert "layout viewer: opened: by a viewer" in found.stdout
    assert (tmp_path / "out" / "viewer" / "net.onnx").is_file()
    (laid,) = json.loads((tmp_path / "out" / "report.json").read_text())["layouts"]
    assert (laid["status"], laid["folder"]) == ("opened", "viewer")
    assert "Layouts for other programs" in (tmp_path / "out" / "report.html").read_text()


def test_a_layout_that_fails_costs_the_run_nothing_but_itself(viewer, tmp_path):
    viewer(times=2)
    write_model(tmp_path / "model.onnx")
    words = ["run", str(tmp_path / "model.onnx"), "-o", str(tmp_path / "out"), "--stage", "post-process"]
    found = CliRunner().invoke(command, [*words, "--search-seconds", "0", "--deliver", "viewer"], standalone_mode=False)
    assert found.return_value == ExitStatus.NOT_HELD
    assert "error[layout-failed]: layout viewer was not delivered" in found.stderr
    assert (tmp_path / "out" / "model.onnx").is_file()
    assert not (tmp_path / "out" / "viewer").exists()


def test_without_the_plugin_nothing_runs_and_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv("OPTIM_DISABLE_PLUGINS", "layouts")
    write_model(tmp_path / "model.onnx")
    with pytest.raises(OptimError, match="plugin layouts is disabled") as refused:
        optim.run(tmp_path / "model.onnx", tmp_path / "out", deliver=["optimum"])
    assert refused.value.what == "a result cannot be delivered for another program"
    assert not (tmp_path / "out").exists()


def test_a_folder_of_yours_in_the_run_folder_is_not_replaced(viewer, run_folder, tmp_path):
    viewer()
    write_model(tmp_path / "model.onnx")
    (tmp_path / "out" / "viewer").mkdir(parents=True)
    with pytest.raises(OptimError, match="folder-taken"):
        optim.run(tmp_path / "model.onnx", tmp_path / "out", deliver=["viewer"])
    with pytest.raises(OptimError, match="layout-twice"):
        optim.run(tmp_path / "model.onnx", tmp_path / "new", deliver=["viewer", "viewer"])


@pytest.fixture
def tuned(run_folder, tmp_path):
    """The same run folder with other settings."""

    def folder(session):
        copy = tmp_path / "tuned"
        copy.mkdir()
        for name in ("model.onnx", "recipe.lock.toml", "run.json"):
            (copy / name).write_bytes((run_folder / name).read_bytes())
        write_session_files(copy, SessionFile.of(session, PLAIN_CPU))
        return copy

    return folder


def test_a_lock_of_somebody_else_has_no_code_run_for_its_feeds(tuned, viewer, tmp_path, monkeypatch):
    viewer()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "planted.py").write_text("open('ran', 'w').close()\n")
    folder = tuned(SessionConfig())
    lock = folder / "recipe.lock.toml"
    lock.write_text(lock.read_text().replace("[feeds]", '[feeds]\ndata = "planted:feeds"'))
    assert optim.deliver(folder, "viewer", tmp_path / "out").status == "opened"
    assert not (tmp_path / "ran").exists()


def test_feeds_of_another_graph_are_no_hindrance_unless_they_were_named(tuned, viewer, tmp_path):
    viewer()
    folder = tuned(SessionConfig())
    np.savez(folder / "feeds.npz", image=np.zeros((1, 3), np.float32))
    lock = folder / "recipe.lock.toml"
    lock.write_text(lock.read_text().replace("[feeds]", '[feeds]\ndata = "feeds.npz"'))
    assert optim.deliver(folder, "viewer", tmp_path / "out").status == "opened"
    with pytest.raises(OptimError, match="feeds-"):
        optim.deliver(folder, "viewer", tmp_path / "other", data=str(folder / "feeds.npz"))


@pytest.mark.slow
def test_settings_that_are_lost_are_named_and_what_that_costs_is_timed(tuned, viewer, tmp_path):
    viewer()
    report = optim.deliver(tuned(SessionConfig({"intra_op_num_threads": 1})), "viewer", tmp_path / "out")
    assert report.not_carried == ("intra_op_num_threads=1",)
    assert report.cost.ci[0] <= report.cost.ratio <= report.cost.ci[1]
    assert "times as long" in report.line
    assert report.baked == ""


def test_a_graph_that_stays_as_the_settings_make_it_has_them_baked_in(tuned, viewer, tmp_path):
    viewer()
    level = SessionConfig({"graph_optimization_level": "ORT_ENABLE_BASIC"})
    report = optim.deliver(tuned(level), "viewer", tmp_path / "out")
    assert report.not_carried == ()
    assert report.baked.startswith("onnxruntime ") and " on " in report.baked
    graph = onnx.load(tmp_path / "out" / "net.onnx").graph
    assert [node.op_type for node in graph.node] == ["MatMul"]


@pytest.mark.slow
def test_what_the_consumer_would_optimize_again_is_not_baked(tuned, viewer, tmp_path):
    viewer()
    off = SessionConfig(disabled_optimizers=("ConstantFolding",))
    report = optim.deliver(tuned(off), "viewer", tmp_path / "out")
    assert report.not_carried == ("without ConstantFolding",)
    assert (report.baked, report.cost is not None) == ("", True)
    graph = onnx.load(tmp_path / "out" / "net.onnx").graph
    assert [node.op_type for node in graph.node] == ["Add", "MatMul"]


def test_a_switched_off_optimizer_is_carried_in_either_way_of_saying_it():
    off = SessionConfig({"intra_op_num_threads": 2}, {"a": "1"}, ("Cast", "Gelu"))
    entry = disabled_as_config(off)
    assert entry.session_config == {"a": "1", "optimization.disable_specified_optimizers": "Cast;Gelu"}
    assert not_carried(off, entry) == ()
    assert not_carried(entry, off) == ()
    assert not_carried(off, SessionConfig()) == ("intra_op_num_threads=2", "a=1", "without Cast", "without Gelu")


def test_a_graph_that_names_a_file_elsewhere_has_nothing_copied(tmp_path):
    (tmp_path / "secret").write_bytes(bytes(32))
    (tmp_path / "run").mkdir()
    write_model(tmp_path / "run" / "model.onnx")
    graph = onnx.load(tmp_path / "run" / "model.onnx")
    onnx.external_data_helper.set_external_data(graph.graph.initializer[0], "../secret")
    graph.graph.initializer[0].ClearField("raw_data")
    (tmp_path / "run" / "model.onnx").write_bytes(graph.SerializeToString())
    result = Result(tmp_path / "run", describe_unread(tmp_path / "run" / "model.onnx"), PLAIN_CPU)
    with pytest.raises(OptimError, match="external-data-outside"):
        place_graph(result, tmp_path / "out" / "net.onnx")
    assert not (tmp_path / "out").exists()


def describe_unread(path):
    return Model(path, "", (), (), {"": 17}, 8)


def test_weights_beside_the_graph_go_along_under_its_name(tmp_path):
    source = models.mlp(tmp_path)
    folder = tmp_path / "run"
    folder.mkdir()
    onnx.save(
        onnx.load(source),
        folder / "model.onnx",
        save_as_external_data=True,
        location="model.onnx.data",
        size_threshold=0,
    )
    result = Result(folder, describe_model(folder / "model.onnx"), PLAIN_CPU)
    place_graph(result, tmp_path / "a" / "b.onnx", data_suffix="_data")
    place_graph(result, tmp_path / "c" / "d.onnx", embed=True)
    assert left_in(tmp_path / "a") == ["b.onnx", "b.onnx_data"]
    assert left_in(tmp_path / "c") == ["d.onnx"]
    weights = [
        sorted((t.name, t.raw_data) for t in onnx.load(p).graph.initializer)
        for p in (source, tmp_path / "a" / "b.onnx", tmp_path / "c" / "d.onnx")
    ]
    assert weights[0] == weights[1] == weights[2]
