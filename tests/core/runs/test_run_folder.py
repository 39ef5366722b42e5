from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from optim._engine.runs.folder import RunFolder, read_mark, recover, report_folder
from optim.errors import ExitStatus, OptimError


def write_result(text: str, *names: str):
    def write(folder: Path) -> None:
        for name in names or ("model.onnx", "report.json"):
            (folder / name).write_text(text)

    return write


def finished(path: Path, text: str = "first") -> Path:
    RunFolder.claim(path, "key").publish(write_result(text))
    return path


def names(path: Path) -> set[str]:
    return {entry.name for entry in path.iterdir()}


def test_a_new_folder_is_made_marked_and_filled(tmp_path):
    claim = RunFolder.claim(tmp_path / "deep" / "run", "key")
    running = json.loads((claim.path / "run.json").read_text())
    assert running["status"] == "running"
    assert running["pid"] == os.getpid()
    assert running["key"] == "key"
    claim.publish(write_result("first"))
    mark = read_mark(tmp_path / "deep" / "run")
    assert mark.status == "finished"
    assert mark.holds.files == ("model.onnx", "report.json")
    assert names(tmp_path / "deep") == {"run"}


def test_a_folder_with_files_of_somebody_else_is_refused_and_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(OptimError, match=r"thesis\.tex") as caught:
        RunFolder.claim(tmp_path)
    assert caught.value.reference == "not-our-folder"
    assert caught.value.status is ExitStatus.USAGE
    assert names(tmp_path) == {"thesis.tex"}


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"status": "finished"}', "not json"])
def test_a_run_json_of_somebody_else_does_not_make_a_folder_ours(tmp_path, text):
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(OptimError, match="not-our-folder"):
        RunFolder.claim(tmp_path)
    assert (tmp_path / "run.json").read_text() == text


@pytest.mark.parametrize("name", ["../victim", "/victim", "..", ".", "", "a/../../victim", "..\\victim", "C:victim"])
def test_a_mark_that_names_what_lies_elsewhere_is_not_ours_and_nothing_is_deleted(tmp_path, monkeypatch, name):
    run = finished(tmp_path / "run")
    victim = tmp_path / "victim"
    victim.write_text("years of work")
    mark = json.loads((run / "run.json").read_text())
    mark["holds"]["files"].append(name)
    (run / "run.json").write_text(json.dumps(mark))
    monkeypatch.chdir(run)  # files are then replaced one by one
    with pytest.raises(OptimError, match="not-our-folder"):
        RunFolder.claim(run).publish(write_result("second"))
    assert victim.read_text() == "years of work"
    assert (run / "model.onnx").read_text() == "first"


def test_a_link_among_our_files_is_removed_and_not_what_it_leads_to(tmp_path, monkeypatch):
    run, elsewhere = finished(tmp_path / "run"), tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "thesis.tex").write_text("years of work")
    (run / "report.json").unlink()
    (run / "report.json").symlink_to(elsewhere)
    monkeypatch.chdir(run)
    RunFolder.claim(run).publish(write_result("second", "model.onnx"))
    assert names(run) == {"model.onnx", "run.json"}
    assert names(elsewhere) == {"thesis.tex"}


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root may mount")
def test_what_is_mounted_below_our_files_is_left_alone(tmp_path, monkeypatch):
    run, other = tmp_path / "run", tmp_path / "other"
    other.mkdir()
    (other / "thesis.tex").write_text("years of work")
    RunFolder.claim(run, "key").publish(lambda folder: (folder / "web" / "data").mkdir(parents=True))
    mounted = subprocess.run(["mount", "--bind", other, run / "web" / "data"], capture_output=True, check=False)
    if mounted.returncode != 0:
        pytest.skip("this system does not let a test mount anything")
    try:
        monkeypatch.chdir(run)
        RunFolder.claim(run).publish(write_result("second"))
        assert names(other) == {"thesis.tex"}
    finally:
        subprocess.run(["umount", run / "web" / "data"], check=True)


@pytest.mark.parametrize("inside", [".", "run", "deep/run"])
def test_a_file_in_the_way_is_named(tmp_path, inside):
    (tmp_path / "file").write_text("x")
    with pytest.raises(OptimError, match="file is a file") as caught:
        RunFolder.claim(tmp_path / "file" / inside)
    assert (caught.value.reference, caught.value.status) == ("not-a-folder", ExitStatus.USAGE)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder that nobody may write to")
def test_a_folder_that_cannot_be_made_is_not_writable():
    with pytest.raises(OptimError) as caught:
        RunFolder.claim(Path("/proc/self/task/run"))
    assert (caught.value.reference, caught.value.status) == ("not-writable", ExitStatus.USAGE)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_not_writable(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(OptimError, match="not-writable"):
        RunFolder.claim(tmp_path / "run")


def test_a_second_result_replaces_every_file_of_the_first_and_keeps_the_users_own(tmp_path):
    path = finished(tmp_path / "run")
    (path / "notes.txt").write_text("mine")
    RunFolder.claim(path, "other").publish(write_result("second", "model.onnx", "model.onnx.data"))
    assert names(path) == {"model.onnx", "model.onnx.data", "notes.txt", "run.json"}
    assert (path / "model.onnx").read_text() == "second"
    assert (path / "notes.txt").read_text() == "mine"
    assert names(tmp_path) == {"run"}


def test_a_shell_that_stands_in_the_folder_still_stands_there(tmp_path, monkeypatch):
    path = finished(tmp_path / "run")
    (path / "notes.txt").write_text("mine")
    monkeypatch.chdir(path)
    RunFolder.claim(Path(), "other").publish(write_result("second", "model.onnx"))
    assert names(Path.cwd()) == {"model.onnx", "notes.txt", "run.json"}
    assert Path("model.onnx").read_text() == "second"
    assert read_mark(path).holds.files == ("model.onnx",)


def test_an_abandoned_claim_leaves_no_trace(tmp_path):
    with RunFolder.claim(tmp_path / "run"):
        pass
    assert not (tmp_path / "run").exists()
    (tmp_path / "empty").mkdir()
    RunFolder.claim(tmp_path / "empty").abandon()
    assert names(tmp_path / "empty") == set()


def test_an_abandoned_claim_leaves_an_earlier_result_as_it_was(tmp_path):
    path = finished(tmp_path / "run")
    before = {entry.name: entry.read_bytes() for entry in path.iterdir()}
    RunFolder.claim(path, "other").abandon()
    assert {entry.name: entry.read_bytes() for entry in path.iterdir()} == before


def test_a_writer_that_fails_leaves_an_earlier_result_as_it_was(tmp_path):
    path = finished(tmp_path / "run")

    def fail(folder: Path) -> None:
        (folder / "model.onnx").write_text("half")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), RunFolder.claim(path) as claim:
        claim.publish(fail)
    assert (path / "model.onnx").read_text() == "first"
    assert read_mark(path).status == "finished"
    assert names(tmp_path) == {"run"}


def test_a_run_without_a_model_reports_beside_the_earlier_result_until_there_is_a_new_one(tmp_path):
    path = finished(tmp_path / "run")
    before = {name: (path / name).read_bytes() for name in ("model.onnx", "report.json")}
    for text in ("missed", "missed again"):
        RunFolder.claim(path, "other").publish_aside(write_result(text, "report.json"))
        assert report_folder(path, delivered=False) == path / "not-delivered"
        assert (path / "not-delivered" / "report.json").read_text() == text
    assert {name: (path / name).read_bytes() for name in before} == before
    assert names(path) == {"model.onnx", "report.json", "run.json", "not-delivered"}
    RunFolder.claim(path, "third").publish(write_result("third"))
    assert names(path) == {"model.onnx", "report.json", "run.json"}
    assert report_folder(path, delivered=True) == path


def test_a_folder_of_the_user_is_not_taken_for_the_report_of_a_run(tmp_path):
    path = finished(tmp_path / "run")
    (path / "not-delivered").mkdir()
    (path / "not-delivered" / "letter.txt").write_text("mine")
    with pytest.raises(OptimError, match="not-our-folder"), RunFolder.claim(path) as claim:
        claim.publish_aside(write_result("missed", "report.json"))
    assert (path / "not-delivered" / "letter.txt").read_text() == "mine"
    assert read_mark(path).status == "finished"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("inside", [False, True])
def test_a_full_disk_is_named_and_the_earlier_result_stays(tmp_path, monkeypatch, inside):
    path = finished(tmp_path / "run")
    if inside:
        monkeypatch.chdir(path)

    def fill(folder: Path) -> None:
        (folder / "model.onnx").write_text("half")
        with open("/dev/full", "wb") as disk:
            disk.write(b"x" * 100_000)

    with pytest.raises(OptimError) as caught, RunFolder.claim(path) as claim:
        claim.publish(fill)
    assert (caught.value.reference, caught.value.status) == ("disk-full", ExitStatus.USAGE)
    assert (path / "model.onnx").read_text() == "first"
    assert names(path) == {"model.onnx", "report.json", "run.json"}


@pytest.mark.parametrize("earlier", [False, True])
def test_a_disk_that_stays_full_masks_no_diagnosis_and_the_folder_can_be_claimed_again(tmp_path, monkeypatch, earlier):
    path = finished(tmp_path / "run") if earlier else tmp_path / "run"
    full = OSError(errno.ENOSPC, "No space left on device")

    def fill(*_: object, **__: object) -> None:
        raise full

    with pytest.raises(OptimError) as caught, RunFolder.claim(path) as claim:
        monkeypatch.setattr("optim._engine.runs.folder.write_mark", fill)
        monkeypatch.setattr(Path, "unlink", fill)
        claim.publish(fill)
    assert caught.value.reference == "disk-full"
    monkeypatch.undo()
    with RunFolder.claim(path) as again:
        assert (again.earlier is not None) == earlier


@pytest.mark.parametrize("inside", [False, True])
def test_a_file_of_the_user_that_a_later_run_would_write_too_stays_and_is_named(tmp_path, monkeypatch, inside):
    path = finished(tmp_path / "run")
    (path / "config.json").write_text("mine")
    if inside:
        monkeypatch.chdir(path)
    with pytest.raises(OptimError, match=r"config\.json") as caught, RunFolder.claim(path) as claim:
        claim.publish(write_result("second", "model.onnx", "report.json", "config.json"))
    assert caught.value.reference == "not-our-folder"
    assert (path / "config.json").read_text() == "mine"
    assert (path / "model.onnx").read_text() == "first"
    assert names(path) == {"model.onnx", "report.json", "run.json", "config.json"}
    assert read_mark(path).status == "finished"


def test_two_runs_do_not_fill_one_folder_at_once(tmp_path):
    first = RunFolder.claim(tmp_path / "run")
    with pytest.raises(OptimError, match="folder-in-use"):
        RunFolder.claim(tmp_path / "run")
    first.abandon()
    RunFolder.claim(tmp_path / "run").abandon()


KILLED = """
import os, signal, sys
from pathlib import Path
from optim._engine.runs.folder import RunFolder
claim = RunFolder.claim(Path(sys.argv[1]), "killed")
def write(folder):
    (folder / "model.onnx").write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
claim.publish(write)
"""


def test_a_run_killed_while_it_writes_damages_nothing_and_the_next_one_goes_on(tmp_path):
    path = finished(tmp_path / "run")
    killed = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert (path / "model.onnx").read_text() == "first"
    mark = read_mark(path)
    assert mark.status == "running"
    assert mark.holds.key == "key"
    claim = RunFolder.claim(path, "again")
    assert claim.earlier.key == "key"
    claim.publish(write_result("second"))
    assert (path / "model.onnx").read_text() == "second"
    assert names(tmp_path) == {"run"}


def test_a_run_killed_between_the_two_renames_is_put_right(tmp_path):
    path = finished(tmp_path / "run")
    path.rename(tmp_path / ".run.optim-old")
    (tmp_path / ".run.optim-new").mkdir()
    recover(path)
    assert (path / "model.onnx").read_text() == "first"
    assert names(tmp_path) == {"run"}


def test_a_run_killed_after_the_renames_loses_no_file_of_the_user(tmp_path):
    path = finished(tmp_path / "run", "second")
    old = finished(tmp_path / ".run.optim-old", "first")
    (old / "notes.txt").write_text("mine")
    recover(path)
    assert (path / "notes.txt").read_text() == "mine"
    assert (path / "model.onnx").read_text() == "second"
    assert names(tmp_path) == {"run"}


def test_the_mark_alone_says_which_files_belong_to_the_run(tmp_path):
    path = finished(tmp_path / "run")
    (path / "model.onnx.data").write_text("put there by the user")
    RunFolder.claim(path).publish(write_result("second"))
    assert (path / "model.onnx.data").read_text() == "put there by the user"
