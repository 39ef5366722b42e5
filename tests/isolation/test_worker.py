"""The isolated worker, in a real environment: what it does, and how each of its ends looks to the host."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from optim.errors import OptimError
from optim.isolation.client import run_isolated
from optim.isolation.environments import Isolation
from optim.jobs import owner
from optim.jobs.owner import FOLDER_VARIABLE, ending_workers, workers_folder
from optim.jobs.talk import over_socket


def test_the_worker_stays_for_the_next_job_and_ends_with_the_run(isolation):
    with ending_workers():  # a run within another: the outer one counts
        worker = run_isolated(isolation, "pid", None)
    assert run_isolated(isolation, "pid", None) == worker
    assert _lives(worker)


def test_the_worker_and_its_folder_are_gone_after_the_run(isolation):
    worker, folder = run_isolated(isolation, "pid", None), workers_folder()
    owner._owned.end()
    try:
        _wait_until(lambda: not _lives(worker), "the worker outlives its run")
        assert not folder.exists()
    finally:
        owner._owned.begin()


@pytest.mark.parametrize(
    ("job", "cause"), [("abort", "ended in the middle"), ("garbage", "broke the worker protocol: b'nonsense'")]
)
def test_a_worker_that_breaks_is_one_error_and_the_next_job_works(isolation, job, cause):
    with pytest.raises(OptimError, match=cause) as raised:
        run_isolated(isolation, job, None)
    assert raised.value.reference == "isolated-worker-failed"
    assert run_isolated(isolation, "echo", 3) == 3


def test_a_worker_killed_between_jobs_is_replaced(isolation):
    worker = run_isolated(isolation, "pid", None)
    os.kill(worker, signal.SIGKILL)
    _wait_until(lambda: not _lives(worker), "it was killed")
    assert run_isolated(isolation, "pid", None) != worker


def test_what_a_library_prints_does_not_reach_the_protocol_but_the_log(isolation):
    assert run_isolated(isolation, "prints", None) == "fine"
    assert '{"result": 2}' in (workers_folder() / isolation.plugin / "log").read_text()


def test_a_job_that_takes_too_long_is_stopped(isolation):
    worker = run_isolated(isolation, "pid", None)
    with pytest.raises(OptimError, match="took too long"):
        run_isolated(isolation, "hang", None, timeout_s=1.5)
    _wait_until(lambda: not _lives(worker), "the worker goes on")
    assert run_isolated(isolation, "echo", 4) == 4


def test_a_job_asks_the_host_and_reports_progress(isolation):
    said = []
    answer = run_isolated(
        isolation,
        "asks",
        [1, 2.5],
        on_progress=lambda share, text: said.append((share, text)),
        calls={"double": lambda number: 2 * number},
    )
    assert answer == [2, 5.0]
    assert said == [(0.5, "half")]


def test_an_error_of_the_host_comes_out_as_it_is_and_ends_the_job(isolation):
    def broken(number):
        raise KeyError("of the host")

    with pytest.raises(KeyError, match="of the host"):
        run_isolated(isolation, "asks", [1], calls={"double": broken})
    assert run_isolated(isolation, "echo", 5) == 5


@pytest.mark.parametrize(
    ("job", "reference", "cause"),
    [
        ("fails", "isolated-job-failed", "ValueError: the true cause"),
        ("exits", "isolated-job-failed", "SystemExit: 0"),
        ("absent", "isolated-job-failed", "absent"),
        ("disk_is_full", "disk-full", "No space left"),
    ],
)
def test_a_job_that_raises_says_why_and_its_worker_stays(isolation, job, reference, cause):
    worker = run_isolated(isolation, "pid", None)
    with pytest.raises(OptimError, match=cause) as raised:
        run_isolated(isolation, job, None)
    assert raised.value.reference == reference
    assert run_isolated(isolation, "pid", None) == worker


def test_who_does_not_know_the_secret_gets_nothing(isolation):
    run_isolated(isolation, "echo", 1)
    address = json.loads((workers_folder() / isolation.plugin / "address").read_text())
    stranger = over_socket(socket.create_connection(("127.0.0.1", address["port"]), timeout=10))
    stranger.send({"secret": "guessed"})
    stranger.send({"job": "echo", "request": 1})
    with pytest.raises((EOFError, ConnectionResetError)):
        stranger.receive(10.0)
    stranger.close()
    assert run_isolated(isolation, "echo", 2) == 2


def test_a_plugin_without_environment_says_how_to_make_it(isolation):
    other = Isolation("nowhere", ("numpy==1.26.4",), isolation.jobs)
    with pytest.raises(OptimError, match="optim plugins install nowhere") as raised:
        run_isolated(other, "echo", 1)
    assert raised.value.reference == "not-installed-isolated"


def test_an_environment_that_does_not_start_is_one_error(isolation, tmp_path):
    broken = Isolation(isolation.plugin, isolation.requirements, tmp_path / "jobs.py")
    (tmp_path / "jobs.py").write_text("import no_such_library\n")
    with pytest.raises(OptimError, match=r"it did not start: exit status 1.*No module named 'no_such_library'"):
        run_isolated(broken, "echo", 1)


@pytest.mark.skipif(os.name != "posix", reason="signals as Unix has them")
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT], ids=["killed", "interrupted"])
def test_a_busy_worker_ends_when_its_owner_does(isolation, end):
    code = (
        "import sys, threading, time; from pathlib import Path; from optim.isolation.environments import Isolation\n"
        "from optim.isolation.client import run_isolated\n"
        f"one = Isolation({isolation.plugin!r}, (), Path({str(isolation.jobs)!r}))\n"
        "print(run_isolated(one, 'pid', None), flush=True)\n"
        "run_isolated(one, 'hang', None)"
    )
    clean = {key: text for key, text in os.environ.items() if key != FOLDER_VARIABLE}
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=clean
    ) as parent:
        assert parent.stdout is not None
        worker = int(parent.stdout.readline())
        time.sleep(0.2)
        parent.send_signal(end)
    _wait_until(lambda: not _lives(worker), "the worker is an orphan")


def _wait_until(condition, otherwise: str) -> None:
    deadline = time.monotonic() + 200
    while not condition():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.05)


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
