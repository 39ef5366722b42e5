"""A batch on workers of dask: real processes on this machine, one of them killed."""

from __future__ import annotations

import os
import socket
import sys
import time
from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from threading import Barrier
from typing import TYPE_CHECKING

import psutil
import pytest
from batch_models import relu

from optim.errors import OptimError
from optim_fleet.batch.cluster import _unfit, executor_of
from optim_fleet.batch.program import ProgramWork, run_program
from optim_fleet.cluster.connect import client_of
from optim_fleet.cluster.describe import Worker, WorkerDevice

if TYPE_CHECKING:
    from distributed import LocalCluster

pytestmark = pytest.mark.skipif(find_spec("distributed") is None, reason="dask is not installed")


@pytest.mark.parametrize(
    ("cluster", "reference"),
    [
        ("tcp://10.0.0.1:8786", "cluster-unencrypted"),
        ("nonsense", "bad-cluster"),
        ("http://localhost:8786", "bad-cluster"),
        ("tcp://localhost", "bad-cluster"),
        ("local:0", "bad-cluster"),
        ("local:²", "bad-cluster"),
        ("no_such_module:cluster", "bad-cluster"),
        ("os:getcwd", "bad-cluster"),
        ("tls://127.0.0.1:9", "cluster-unreachable"),
    ],
)
def test_an_address_that_cannot_be_used(cluster: str, reference: str, tmp_path: Path) -> None:
    with pytest.raises(OptimError) as caught, executor_of(cluster, 1, ["cpu"], tmp_path):
        pass
    assert caught.value.reference == reference


def test_a_scheduler_without_certificates_for_it(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as there:
        address = f"tls://127.0.0.1:{there.getsockname()[1]}"
        with pytest.raises(OptimError) as caught, executor_of(address, 1, ["cpu"], tmp_path):
            pass
    assert caught.value.reference == "cluster-unencrypted"


def test_workers_that_do_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """As those of a script that calls optim without asking whether it is the main one."""

    def none(**asked: object) -> None:
        raise RuntimeError("Nanny failed to start.")

    monkeypatch.setattr("distributed.LocalCluster", none)
    there = pytest.raises(OptimError, match=r"workers of local:2 did not start[^$]*imports the script")
    with there, client_of("local:2"):
        pass


def one_process() -> LocalCluster:
    """A worker that can be killed: those of local:N are threads."""
    import distributed

    return distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0", scheduler_kwargs={"dashboard": False}
    )


@pytest.mark.slow
def test_a_worker_that_is_killed_loses_nothing(tmp_path: Path) -> None:
    (tmp_path / "_batch").mkdir()
    relu(tmp_path / "m.onnx")
    output, log = tmp_path / "out", tmp_path / "log"
    run = ("run", str(tmp_path / "m.onnx"), "-o", str(output), "--stage", "fuse", "--search-seconds", "1", "--json")
    with executor_of(f"{__name__}:one_process", 1, ["cpu"], tmp_path) as executor:
        future = executor.submit(run_program, ProgramWork(run, str(log)))
        worker = _worker_of(log)
        assert worker.pid != os.getpid()
        worker.kill()
        done = future.result(timeout=600)
    assert done.status == 0 and (output / "model.onnx").is_file()
    assert not any(path.name.startswith(".optim-") for path in output.iterdir())


def test_workers_of_this_machine_are_threads_and_need_no_dask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They wait for programs; a scheduler and processes take seconds to start."""
    monkeypatch.setitem(sys.modules, "distributed", None)
    before = set(psutil.Process().children(recursive=True))
    together = Barrier(2)
    with executor_of("local:2", 1, ["cpu"], tmp_path) as executor:
        futures = [executor.submit(together.wait, 60.0) for _ in range(2)]
        assert sorted(future.result(timeout=60) for future in futures) == [0, 1]
        assert set(psutil.Process().children(recursive=True)) <= before


@pytest.mark.slow
def test_a_target_that_no_worker_has(tmp_path: Path) -> None:
    (tmp_path / "_batch").mkdir()
    lacking = pytest.raises(OptimError, match=r"has no target toaster; it has .*cpu")
    with lacking, executor_of(f"{__name__}:one_process", 1, ["toaster"], tmp_path):
        pass


def test_workers_of_two_kinds_are_refused_with_what_differs() -> None:
    here = Worker("vm", "optim 1", "core", {}, "A/2", "vm/A/2", {"onnxruntime": "1.31"}, {"cpu": WorkerDevice()})
    problem = _unfit(here, {"one": here, "two": replace(here, machine="A/1")}, ["cpu"])
    assert problem == "figures of two on vm and one on vm could not be compared: the one has A/1 in place of A/2"
    assert _unfit(here, {"one": here, "two": here}, ["cpu"]) == ""


def _worker_of(log: Path) -> psutil.Process:
    """The worker that has begun the run of a log: the nearest process above it that forks no others."""
    while not (log.exists() and log.read_text()):
        time.sleep(0.02)
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            above = process.parent()
            outermost = above is not None and above.pid != os.getpid() and not _is_of_a_run(above)
            if _is_of_a_run(process) and outermost:
                return above
    raise AssertionError("nobody has begun it")


def _is_of_a_run(process: psutil.Process) -> bool:
    return any(word in process.cmdline() for word in ("optim.jobs.fork_server", "optim_fleet.batch.held"))
