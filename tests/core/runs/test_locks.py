"""Locks between processes: who holds them is said, who came first is served first, the dead hold nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from optim._engine import locks
from optim._engine.locks import LockBusyError, acquire
from optim.errors import OptimError
from optim.folders import lock_folder

HOLDER = """
import sys, time
from optim._engine.locks import acquire
held = acquire("clock", "a race", wait_s=60)
print("held", flush=True)
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return lock_folder()


@pytest.fixture
def other():
    """Another process that holds the lock."""
    with subprocess.Popen([sys.executable, "-c", HOLDER], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_who_holds_a_lock_is_said_and_waiting_is_bounded(other):
    waited = []
    with pytest.raises(LockBusyError) as caught:
        acquire("clock", "mine", wait_s=0.2, on_wait=waited.append)
    assert waited == [f"process {other.pid} (a race)"]
    assert caught.value.holder == f"process {other.pid} (a race)"


def test_a_process_that_was_killed_holds_nothing(other):
    other.send_signal(signal.SIGKILL)
    other.wait()
    acquire("clock", "mine", wait_s=200).release()


def test_a_lock_that_is_free_is_held_at_once_and_leaves_no_ticket(folder):
    waited = []
    lock = acquire("clock", "mine", wait_s=0, on_wait=waited.append)
    assert lock.is_locked
    assert waited == []
    assert [path.name for path in folder.glob("*.ticket")] == []
    lock.release()


def test_who_came_first_is_served_first(folder):
    """One that takes the lock again and again stands behind those who wait already."""
    first, served = acquire("clock", "first", wait_s=0), []

    def wait() -> None:
        lock = acquire("clock", "second", wait_s=200)
        served.append("second")
        lock.release()

    thread = threading.Thread(target=wait)
    thread.start()
    while not list(folder.glob("clock.*.ticket")):
        time.sleep(0.01)
    first.release()
    again = acquire("clock", "first again", wait_s=200)
    served.append("first again")
    again.release()
    thread.join()
    assert served == ["second", "first again"]


def test_a_ticket_of_a_dead_process_holds_up_nobody(folder):
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        gone.wait()
    (folder / f"clock.{0:020d}.{gone.pid}.ticket").touch()
    (folder / f"clock.{0:020d}.{os.getpid()}.ticket").touch()  # its id was used again: this process is younger
    (folder / "clock.0.nonsense.ticket").touch()
    acquire("clock", "mine", wait_s=0).release()
    assert list(folder.glob("*.ticket")) == []


def test_old_lock_files_are_swept_away_and_those_that_are_held_stay(folder, other):
    for name in ("old", "clock"):
        (folder / f"{name}.lock").touch()
        os.utime(folder / f"{name}.lock", (0, 0))
    acquire("mine", "mine", wait_s=0).release()
    assert not (folder / "old.lock").exists()
    assert (folder / "clock.lock").exists()


def test_a_stranger_who_was_there_first_is_named(tmp_path, monkeypatch):
    (tmp_path / "in-the-way").write_text("")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "in-the-way"))
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "in-the-way"))
    with pytest.raises(OptimError, match="lock-folder-unusable") as caught:
        acquire("clock", "mine", wait_s=0)
    assert "in-the-way" in caught.value.cause
    assert "XDG_RUNTIME_DIR" in caught.value.fix


def test_a_folder_of_somebody_else_is_passed_by(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.raises(OptimError, match="it is not yours"):
        lock_folder()


def test_what_is_no_holder_is_nobody_in_particular(folder):
    (folder / "clock.holder").write_text("[")
    assert locks._holder(folder / "clock.lock") == "another process"
