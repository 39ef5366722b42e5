"""A connection to a real cluster: encrypted with certificates of its own, and cut in the middle of a run."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cut_line import line_to

from optim._engine.plugins.registry import load_registry
from optim._engine.runs.run import workplace_request
from optim._engine.search.settings import RunSettings
from optim._engine.store import Store
from optim.errors import OptimError
from optim.workplace import Done, Work
from optim_fleet.cluster import work
from optim_fleet.cluster.connect import client_of
from optim_fleet.cluster.connection import Connection
from optim_fleet.cluster.describe import describe, read
from optim_fleet.cluster.fleet import fleet_of

pytestmark = [
    pytest.mark.skipif(find_spec("distributed") is None, reason="dask is not installed"),
    pytest.mark.skipif(find_spec("trustme") is None, reason="trustme is not installed"),
]

WORK = Work("optim._engine.jobs.refuse", {}, 60.0)
_CUT_S = 1.5
"""Longer than a run waits for an answer until it looks whether somebody is still there."""


class Certificates:
    """Files of one authority, and of a key that it vouches for."""

    def __init__(self, folder: Path) -> None:
        import trustme

        folder.mkdir()
        authority = trustme.CA()
        issued = authority.issue_cert("127.0.0.1")
        authority.cert_pem.write_to_path(folder / "ca.pem")
        issued.private_key_and_cert_chain_pem.write_to_path(folder / "key.pem")
        named = {"key": str(folder / "key.pem"), "cert": str(folder / "key.pem")}
        self.settings: dict[str, Any] = {
            "distributed.comm.tls.ca-file": str(folder / "ca.pem"),
            "distributed.comm.tls.client": named,
            "distributed.comm.tls.scheduler": named,
            "distributed.comm.tls.worker": named,
        }


@contextmanager
def cluster(protocol: str = "tcp") -> Iterator[Any]:
    """A scheduler and a worker with the clock of the CPU, in this process."""
    import distributed

    with distributed.LocalCluster(
        n_workers=1,
        threads_per_worker=1,
        processes=False,
        protocol=protocol,
        host="127.0.0.1",
        security=distributed.Security() if protocol == "tls" else None,
        dashboard_address="127.0.0.1:0",
        scheduler_kwargs={"dashboard": False},
        resources={"optim-clock-cpu": 1},
    ) as made:
        yield made


def test_certificates_are_those_that_dask_is_told(tmp_path: Path) -> None:
    import dask

    import_module("distributed")  # settings that are made before its own are there take those away at their end
    ours, others = Certificates(tmp_path / "ours"), Certificates(tmp_path / "others")
    with dask.config.set(ours.settings), cluster("tls") as made:
        address = made.scheduler_address
        assert address.startswith("tls://")
        with client_of(address) as client:
            assert [read(text).core for text in client.run(describe).values()] == [read(describe()).core]
        with dask.config.set(others.settings), pytest.raises(OptimError) as caught, client_of(address):
            pass
        assert caught.value.reference == "cluster-unreachable" and "certificate" in caught.value.cause.lower()


@pytest.mark.parametrize("broken", [False, True])
def test_a_line_that_is_cut_costs_time_and_nothing_else(
    broken: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The network is away for a while; afterwards what was sent comes late, or both sides have given the line up."""
    monkeypatch.setenv("OPTIM_CACHE_DIR", str(tmp_path))
    done: list[Work] = []

    def do(work: Work, turns: object, watch: object) -> Done:
        if not done:
            line.cut()
            threading.Timer(_CUT_S, line.mend, kwargs={"broken": broken}).start()
        done.append(work)
        return Done({"answer": len(done)})

    monkeypatch.setattr(work, "work_here", do)
    with cluster() as made, line_to(int(made.scheduler_address.rpartition(":")[2])) as line:
        settings = RunSettings(Path("m.onnx"), cluster=f"tcp://127.0.0.1:{line.port}")
        with fleet_of(workplace_request(settings, load_registry(), Store(tmp_path), print)) as fleet, fleet.working():
            assert fleet.do(WORK).answer == {"answer": 2 if broken else 1}  # it is done again where its answer was lost
            assert fleet.do(WORK).answer == {"answer": len(done)}


def test_what_a_thread_has_connected_to_anew_another_one_closes() -> None:
    lost: Any = SimpleNamespace(status="closed")
    with cluster() as made, ThreadPoolExecutor(1) as threads:
        connection = Connection(lost, made.scheduler_address, print)
        threads.submit(connection.restore, lambda: True).result()
        assert connection.client.status == "running"
        connection.close()
        assert connection.client.status == "closed"
