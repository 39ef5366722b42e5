"""A batch from recipes to its index, run by run in programs of their own."""

from __future__ import annotations

import json
import os
import signal
import time
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from batch_models import relu

import optim.__main__
from optim._engine.cli.main import main
from optim.errors import OptimError
from optim_fleet.batch import held, program
from optim_fleet.batch.index import error_row, read_index, rows_of, worst_status
from optim_fleet.batch.live import BatchStanding, line_of
from optim_fleet.batch.matrix import Entry, read_batch
from optim_fleet.batch.program import ProgramEnd, ProgramWork, end_programs, run_program
from optim_fleet.batch.runs import ToldRun, claimed, run_batch

pytestmark = pytest.mark.slow

QUIET = ToldRun(BatchStanding(3).begun, lambda rows, known: None)


class Here(Executor):
    """Runs what it is given at once, and counts it."""

    def __init__(self) -> None:
        self.ran: list[ProgramWork] = []

    def submit(self, fn, /, *args, **kwargs):  # type: ignore[no-untyped-def]
        self.ran.append(args[0])
        future: Future[ProgramEnd] = Future()
        try:
            future.set_result(fn(*args))
        except BaseException as error:
            future.set_exception(error)
        return future


@pytest.fixture(scope="module")
def batch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a batch that has been run: one model that is fine, one that is none, one recipe that is wrong."""
    folder = tmp_path_factory.mktemp("batch")
    relu(folder / "fine.onnx")
    (folder / "broken.onnx").write_bytes(b"no model")
    (folder / "batch.toml").write_text(
        'stages = ["fuse"]\nsearch_seconds = 1\n[matrix]\nsource = ["fine.onnx", "broken.onnx"]\n'
    )
    (folder / "wrong.toml").write_text("seed = -1\n[matrix]\nsource = ['fine.onnx']\n")
    return folder


def run(folder: Path, executor: Here, fresh: bool = False):  # type: ignore[no-untyped-def]
    entries = read_batch([folder / "batch.toml", folder / "wrong.toml"])
    with claimed(folder / "outs"):
        return run_batch(entries, folder / "outs", executor, QUIET, fresh=fresh)


def test_each_run_has_its_folder_and_its_row(batch: Path) -> None:
    index = run(batch, Here())
    fine, broken, wrong = index.rows
    assert (fine.name, fine.status, fine.exit_status) == ("fine", "unchanged", 0)
    assert (batch / "outs" / "fine" / "model.onnx").is_file() and (batch / "outs" / fine.report).is_file()
    assert (broken.status, broken.exit_status) == ("error", 3) and "not an ONNX model" in broken.reason
    assert (wrong.status, wrong.exit_status) == ("error", 2) and "seed" in wrong.reason
    assert worst_status(index.rows) == 3
    assert read_index(batch / "outs") == index
    assert "reading fine.onnx" in (batch / "outs" / "_batch" / "fine.log").read_text()
    page = (batch / "outs" / "index.html").read_text()
    assert "1 of 3 runs delivered a model" in page and 'href="fine/report.html"' in page


def lost(work: ProgramWork) -> ProgramEnd:
    raise RuntimeError("the worker was killed")


def test_what_is_finished_is_not_run_again(batch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(batch, Here())
    monkeypatch.setattr("optim_fleet.batch.runs.run_program", lost)
    again = Here()
    index = run(batch, again)
    assert [Path(work.arguments[-1]).name for work in again.ran] == ["broken.onnx"]
    assert [row.status for row in index.rows] == ["unchanged", "error", "error"]
    os.utime(batch / "fine.onnx", ns=(1, 1))
    changed = Here()
    run(batch, changed)
    assert len(changed.ran) == 2


def test_a_run_that_is_lost_is_a_row(batch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("optim_fleet.batch.runs.run_program", lost)
    index = run(batch, Here(), fresh=True)
    assert index.rows[0].status == "error" and "the worker was killed" in index.rows[0].reason


def test_an_error_of_several_lines_is_told_in_one(batch: Path) -> None:
    (entry,) = read_batch([batch / "wrong.toml"])
    row = error_row(entry, OptimError("bad-toml", "it is no TOML", "an end is missing:\n    a =", "add it"))
    assert line_of(row).endswith("it is no TOML: an end is missing: a =, 0 s")


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(OptimError, match="not the folder of an earlier batch"), claimed(tmp_path):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_batch_that_began_nothing_leaves_nothing(tmp_path: Path) -> None:
    with claimed(tmp_path / "outs"):
        pass
    assert not (tmp_path / "outs").exists()


def test_a_run_of_a_batch_is_the_command_itself() -> None:
    """Which puts off what is seldom imported, and whose start is part of its seconds."""
    assert held.main is optim.__main__.main


def test_a_run_says_what_the_command_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = run_program(ProgramWork(("run", "none-é.onnx", "--json"), str(tmp_path / "log")))
    assert done.status == 3 and "none-é.onnx" in json.loads(done.answer)["error"]["what"]
    assert "none-é.onnx" in (tmp_path / "log").read_text("utf-8")


def test_a_run_that_ends_without_a_report_is_a_row(tmp_path: Path) -> None:
    (row,) = rows_of(
        Entry("a", "a.onnx", tmp_path / "a.toml"), ProgramEnd(-9, "", 0.1, "here"), tmp_path, "optim run a.onnx"
    )
    assert row.reason == "a ended without a report: signal 9"  # run-lost


def test_a_run_that_is_killed_takes_its_workers_with_it_and_the_next_one_runs(tmp_path: Path) -> None:
    relu(tmp_path / "m.onnx")
    arguments = ("run", str(tmp_path / "m.onnx"), "-o", str(tmp_path / "out"), "--no-cache", "--search-seconds", "300")
    with ThreadPoolExecutor(1) as executor:
        future = executor.submit(run_program, ProgramWork(arguments, str(tmp_path / "log")))
        log = tmp_path / "log"
        while not (log.exists() and "running the original" in log.read_text()):
            time.sleep(0.02)
        (run,) = program._running
        workers = psutil.Process(run.pid).children(recursive=True)
        os.kill(run.pid, signal.SIGKILL)
        assert future.result(timeout=600).status == -signal.SIGKILL
    assert run_program(ProgramWork(("--version",), str(log))).status == 0
    _, left = psutil.wait_procs(workers, timeout=600)
    assert workers and not left


def test_a_run_ends_with_who_started_it(tmp_path: Path) -> None:
    relu(tmp_path / "m.onnx")
    log = tmp_path / "log"
    arguments = ("run", str(tmp_path / "m.onnx"), "-o", str(tmp_path / "out"), "--no-cache", "--search-seconds", "300")
    with ThreadPoolExecutor(1) as executor:
        future = executor.submit(run_program, ProgramWork(arguments, str(log)))
        while not (log.exists() and log.read_text()):
            time.sleep(0.02)
        end_programs()
        done = future.result(timeout=600)
    assert done.status == 130 and not (tmp_path / "out").exists()


def test_the_verb_lists_what_it_would_run(batch: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["batch", str(batch / "batch.toml"), "-o", str(batch / "none"), "--dry-run", "--json"])
    assert status == 0 and not (batch / "none").exists()
    assert [row["name"] for row in json.loads(capsys.readouterr().out)] == ["fine", "broken"]


@pytest.mark.parametrize(
    ("answer", "waits"),
    [
        ('{"error": {"reference": "folder-in-use", "what": "busy"}}', True),
        ('{"error": {"reference": "unknown-target", "cause": "a folder \\"folder-in-use\\""}}', False),
        ('{"status": "improved", "reason": "folder-in-use"}', False),
        ("", False),
    ],
)
def test_only_the_error_of_a_folder_in_use_has_a_run_begun_again(answer: str, waits: bool) -> None:
    assert program._is_in_use(answer) is waits
