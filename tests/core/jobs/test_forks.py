"""Workers that are forks of one server: each is as good as a program of its own, and nothing is left of any."""

from __future__ import annotations

import errno
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from installed_plugin import workers_import

from optim._engine.jobs import candidate, lane
from optim.jobs import fork_server, wire
from optim.jobs.process import WorkerFailed, WorkerProcess, expect_workers, run_job, server_apart

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="workers are forked on Linux alone")


@pytest.fixture(autouse=True)
def _jobs_importable(monkeypatch):
    workers_import(monkeypatch)


def described(variable="NOTHING", **how):
    with WorkerProcess("unruly_job", {"action": "describe", "arguments": {"variable": variable}}, **how) as worker:
        return json.loads(worker.result(200.0)["said"])


def test_workers_are_forks_of_one_server_and_know_nothing_of_each_other():
    first, second = described(), described()
    assert first["parent"] == second["parent"] != os.getpid()
    assert first["own"] != second["own"]
    assert second["left"] == "nothing"
    assert first["random"] != second["random"]


def test_a_server_can_be_started_before_the_first_worker_needs_it(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "6")
    before = fork_server.KEPT._server
    expect_workers()
    deadline = time.monotonic() + 200.0
    while fork_server.KEPT._server is before and time.monotonic() < deadline:
        time.sleep(0.02)
    assert described()["parent"] == fork_server.KEPT._server._server.pid
    assert fork_server.KEPT._server is not before


def test_a_server_makes_ahead_what_its_workers_read_and_check_with():
    server = object.__new__(fork_server.ServerLoop)
    server._learned = set()
    wire.adapter.cache_clear()
    server._learn(candidate.__name__)
    made = wire.adapter.cache_info().misses
    for kind in (candidate.Request, *candidate.CHECKED):
        wire.adapter(kind)
    assert made == wire.adapter.cache_info().misses == 1 + len(candidate.CHECKED)


def test_a_worker_has_the_environment_and_the_folders_of_the_moment(monkeypatch, tmp_path):
    before = described()["parent"]
    monkeypatch.setenv("OPTIM_CACHE_DIR", "here")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    found = described("OPTIM_CACHE_DIR")
    assert (found["variable"], found["folder"], found["temporary"]) == ("here", str(tmp_path), str(tmp_path))
    assert found["parent"] == before
    assert str(tmp_path) not in found["path"]
    monkeypatch.delenv("OPTIM_CACHE_DIR")
    assert described("OPTIM_CACHE_DIR")["variable"] is None


@pytest.mark.slow
def test_a_server_apart_is_a_program_of_its_own_and_ends_with_its_last_worker():
    common = described()["parent"]
    with server_apart(["json"]) as server:
        worker = WorkerProcess("unruly_job", {"action": "describe", "arguments": {"variable": "HOME"}}, server=server)
    with worker:
        found = json.loads(worker.result(200.0)["said"])
    assert found["parent"] == server._server.pid not in (common, os.getpid())
    assert found["left"] == "nothing"
    assert gone(found["parent"])
    assert described()["parent"] == common


def test_without_a_server_apart_a_worker_is_a_program(monkeypatch):
    monkeypatch.setattr(fork_server, "_READY_S", 1e-3)
    with server_apart(["json"]) as server:
        assert server is None
    monkeypatch.setenv(fork_server.SWITCH, "0")
    with server_apart(["json"]) as server:
        assert server is None


def test_what_libraries_read_when_they_are_imported_takes_another_server(monkeypatch, tmp_path):
    before = described()["parent"]
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ['PYTHONPATH']}")
    found = described("OMP_NUM_THREADS")
    assert found["parent"] != before
    assert found["variable"] == "3"
    assert str(tmp_path) in found["path"]
    assert gone(before)


@pytest.mark.slow
def test_a_server_that_is_replaced_ends_after_its_last_worker(monkeypatch):
    with WorkerProcess("unruly_job", {"action": "converse"}) as worker:
        worker.send({"add": 1})
        assert worker.receive(200.0)["total"] == 1
        before = fork_server.KEPT._server._server.pid
        monkeypatch.setenv("OMP_NUM_THREADS", "5")
        assert described()["parent"] != before
        assert psutil.pid_exists(before)
        worker.send({"add": 1})
        assert worker.receive(200.0)["total"] == 2
    assert gone(before)


@pytest.mark.slow
def test_a_server_that_is_killed_ends_its_workers_and_the_next_one_gets_another():
    with WorkerProcess("unruly_job", {"action": "hang_with_a_child"}) as worker:
        event = worker.receive(200.0)
        os.kill(psutil.Process(event["own"]).ppid(), signal.SIGKILL)
        with pytest.raises(WorkerFailed, match="its process ended"):
            worker.receive(200.0)
    assert gone(event["own"])
    assert described()["left"] == "nothing"


def test_a_fork_that_fails_costs_its_worker_alone(monkeypatch, tmp_path):
    def no_more():
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    client, its_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    tether, held = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with client, its_end, tether, (tmp_path / "output").open("wb") as output:
        server = fork_server.ServerLoop(its_end)
        monkeypatch.setattr(os, "fork", no_more)
        connection, other = os.pipe()
        with held:
            socket.send_fds(client, [b"unruly_job"], [other, output.fileno(), held.fileno()])
        os.close(other)
        assert server._obey()
        assert json.loads(tether.recv(fork_server.PACKET_BYTES)) == {"status": 1}
        assert os.read(connection, 1) == b""  # whoever waits for the worker sees that there is none
        os.close(connection)
    assert (tmp_path / "output").read_text() == f"no worker could be forked: {os.strerror(errno.EAGAIN)}"


def test_the_server_reads_requests_of_our_jobs_for_all_its_workers_and_imports_none_of_a_plugin(monkeypatch):
    known = []
    monkeypatch.setattr("optim.jobs.wire.adapter", known.append)
    client, its_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    monkeypatch.delitem(sys.modules, "unruly_job", raising=False)
    monkeypatch.setattr(gc, "freeze", lambda: None)
    with client, its_end:
        server = fork_server.ServerLoop(its_end)
        for job in (lane.__name__, "unruly_job", lane.__name__, "optim._engine.jobs.nobody_has"):
            server._learn(job)
    assert known == [lane.Request]
    assert "unruly_job" not in sys.modules


def test_without_a_server_workers_are_programs(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.setattr(fork_server, "_READY_S", 1e-3)
    assert described()["parent"] == os.getpid()
    monkeypatch.setattr(fork_server, "_READY_S", 60.0)
    assert described()["parent"] == os.getpid()  # it is not tried again


@pytest.mark.parametrize("by", ["the variable", "the caller"])
def test_a_worker_is_a_program_where_that_is_asked_for(monkeypatch, by):
    monkeypatch.setenv(fork_server.SWITCH, "0" if by == "the variable" else "1")
    assert described(fresh=by == "the caller")["parent"] == os.getpid()


def test_a_working_folder_that_is_gone_stops_nothing(monkeypatch, tmp_path):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert run_job("unruly_job", {"action": "echo", "arguments": {"text": "x"}}, 200.0)[0] == {"said": "x"}


def test_nothing_is_left_when_its_parent_ends():
    script = (
        "from optim.jobs.process import WorkerProcess\n"
        "import psutil\n"
        "worker = WorkerProcess('unruly_job', {'action': 'hang_with_a_child'})\n"
        "event = worker.receive(200.0)\n"
        "print(psutil.Process(event['own']).ppid(), event['own'], event['child'], flush=True)\n"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    pids = [int(word) for word in found.stdout.split()]
    assert len(pids) == 3
    assert all(gone(pid) for pid in pids)


def test_a_fork_of_the_parent_makes_its_own_server():
    before = described()["parent"]
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writes, str(described()["parent"]).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert int(os.read(reads, 100)) != before
    os.close(reads)
    os.close(writes)
    assert described()["parent"] == before


def gone(pid, within_s=200.0):
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        with suppress(OSError):
            if Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX":
                time.sleep(0.05)
                continue
        return True
    return False


def test_a_signal_during_the_wait_for_a_worker_may_wait_too():
    """Ctrl-C twice: each handler ends the workers, and waits for them."""
    ours, server = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    forked, begun, heard = fork_server.Forked(ours), [], []

    def interrupt(*_):
        begun.append(None)
        if len(begun) == 1:
            threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        else:
            server.send(json.dumps({"status": -9}).encode())
        heard.append(forked.wait())

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        assert forked.wait() == -9
    finally:
        signal.signal(signal.SIGUSR1, before)
        server.close()
    assert heard == [-9, -9]
