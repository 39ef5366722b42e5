"""The isolated worker, and the real neural-compressor in an environment made once and kept in ``.cache``."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from optim.errors import OptimError
from optim.isolation.client import run_isolated
from optim.isolation.environments import install_environment
from optim.isolation.isolation import Isolation
from optim.isolation.owner import FOLDER_VARIABLE
from optim_inc.environment import ISOLATION

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module", autouse=True)
def environment():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPTIM_DATA_DIR", str(ROOT / ".cache" / "isolated"))
        install_environment(ISOLATION)
        yield


def test_a_job_that_raises_says_its_true_cause_and_the_worker_stays(tmp_path):
    request = {"model": str(tmp_path / "none.onnx"), "output": "", "config": {"approach": "dynamic"}, "keep": [],
               "samples": []}  # fmt: skip
    for _ in range(2):
        with pytest.raises(OptimError) as raised:
            run_isolated(ISOLATION, "quantize", request)
        assert raised.value.reference == "isolated-job-failed"


@pytest.mark.parametrize(
    ("job", "cause"),
    [
        ("die", "ended in the middle"),
        ("garbage", "broke the worker protocol"),
    ],
)
def test_a_worker_that_dies_or_writes_garbage_is_one_error_and_the_next_job_works(tmp_path, monkeypatch, job, cause):
    monkeypatch.setenv(FOLDER_VARIABLE, str(_owned(tmp_path)))
    isolation = _with_jobs(tmp_path)
    with pytest.raises(OptimError, match=cause) as raised:
        run_isolated(isolation, job, None)
    assert raised.value.reference == "isolated-worker-failed"
    assert run_isolated(isolation, "echo", 3) == 3


def test_what_a_library_prints_does_not_reach_the_protocol(tmp_path, monkeypatch):
    monkeypatch.setenv(FOLDER_VARIABLE, str(_owned(tmp_path)))
    assert run_isolated(_with_jobs(tmp_path), "prints", None) == "fine"


def test_a_job_that_takes_too_long_is_stopped(tmp_path, monkeypatch):
    monkeypatch.setenv(FOLDER_VARIABLE, str(_owned(tmp_path)))
    isolation = _with_jobs(tmp_path)
    with pytest.raises(OptimError, match="took too long"):
        run_isolated(isolation, "hang", None, timeout_s=1)
    assert run_isolated(isolation, "echo", 4) == 4


def test_a_worker_ends_when_its_owner_is_killed(tmp_path):
    isolation = _with_jobs(tmp_path)
    code = (
        "import sys, time; from pathlib import Path; from optim.isolation.isolation import Isolation\n"
        "from optim.isolation.client import run_isolated\n"
        f"one = Isolation('inc', {isolation.requirements!r}, Path({str(isolation.jobs)!r}))\n"
        "print(run_isolated(one, 'pid', None), flush=True); time.sleep(60)"
    )
    clean = {key: text for key, text in os.environ.items() if key != FOLDER_VARIABLE}
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=clean) as parent:
        assert parent.stdout is not None
        worker = int(parent.stdout.readline())
        os.kill(worker, 0)
        parent.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 20
    while _lives(worker):
        assert time.monotonic() < deadline, "the worker is an orphan"
        time.sleep(0.1)


def _lives(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture(autouse=True)
def _release():
    yield
    while _locks:
        os.close(_locks.pop())


_locks: list[int] = []


def _owned(folder: Path) -> Path:
    import fcntl
    import tempfile

    workers = Path(tempfile.mkdtemp(prefix="o"))  # the path of a socket is at most 100 characters
    _locks.append(os.open(workers / "owner", os.O_RDWR | os.O_CREAT))
    fcntl.flock(_locks[-1], fcntl.LOCK_EX)
    del folder
    return workers


def _with_jobs(folder: Path) -> Isolation:
    jobs = folder / "jobs.py"
    jobs.write_text(
        "import os, time\n"
        "def echo(request, progress): return request\n"
        "def pid(request, progress): return os.getpid()\n"
        "def die(request, progress): os.abort()\n"
        "def hang(request, progress): time.sleep(600)\n"
        "def prints(request, progress):\n    print('{\"result\": 1}', flush=True)\n    return 'fine'\n"
        "def garbage(request, progress):\n"
        "    import gc, socket\n"
        "    [one.sendall(b'nonsense\\n') for one in gc.get_objects()\n"
        "     if isinstance(one, socket.socket) and one.fileno() >= 0 and not _listens(one)]\n"
        "    time.sleep(600)\n"
        "def _listens(one):\n    import socket\n"
        "    return one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)\n"
    )
    return Isolation(ISOLATION.plugin, ISOLATION.requirements, jobs)
