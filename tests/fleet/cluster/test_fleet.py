"""What a run does with a cluster that does not answer. Dask is made up: it would take minutes to do so."""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import onnx_ir as ir
import pytest
from test_pool import NEEDS, WORKER, Client, pool_of

from optim._engine.jobs import offer
from optim._engine.jobs.runner import Runner
from optim._engine.search.turns import Turns
from optim._engine.store import Store
from optim.errors import OptimError
from optim.onnx.external_data import link
from optim.onnx.files import save_in_store
from optim.workplace import Done, Work
from optim_fleet.cluster import fleet as fleets
from optim_fleet.cluster.connection import Connection
from optim_fleet.cluster.fleet import Fleet
from optim_fleet.cluster.order import Reply, WorkState

pytestmark = pytest.mark.skipif(find_spec("distributed") is None, reason="dask is not installed")

WORK = Work("optim._engine.jobs.candidate", {}, 600.0)


class Dask(Client):
    """A cluster that takes orders and never replies, or whose client is closed."""

    status = "running"

    def __init__(self, *, closed: bool) -> None:
        super().__init__({"a": WORKER})
        self.asked = threading.Event()
        self.tries = 0
        self.closed = closed

    def submit(self, *order: object, **options: object) -> Dask:
        self.tries += 1
        if self.closed:
            raise RuntimeError("Client is closed")
        return self

    def result(self, timeout: float) -> str:
        self.asked.set()
        raise TimeoutError

    def cancel(self) -> None:
        self.closed = True


def fleet_of(dask: Dask, folder: Path) -> Fleet:
    pool = pool_of(dask, [])
    pool.settle()
    client: Any = dask
    return Fleet(Connection(client, "tcp://here", print), pool, Store(folder).root, NEEDS)


def test_nobody_waits_for_a_job_when_the_run_ends(tmp_path: Path) -> None:
    dask = Dask(closed=False)
    fleet = fleet_of(dask, tmp_path)
    with ThreadPoolExecutor(1) as threads, pytest.raises(KeyboardInterrupt), fleet.working():
        waiting = threads.submit(fleet.do, WORK)
        assert dask.asked.wait(60)
        raise KeyboardInterrupt
    assert isinstance(waiting.exception(), CancelledError) and dask.closed
    with pytest.raises(CancelledError):
        fleet.do(WORK)
    assert dask.tries == 1


def test_workers_that_were_started_here_read_what_this_process_reads(tmp_path: Path) -> None:
    """Linked weights too, which no other machine can."""
    store = Store(tmp_path / "cache")
    weights = tmp_path / "weights.bin"
    weights.write_bytes(bytes(4096))
    shape, kind = ir.Shape([1024]), ir.DataType.FLOAT
    linked = ir.Value(
        name="w", shape=shape, type=ir.TensorType(kind), const_value=link(weights, 0, 4096, kind, shape, "w")
    )
    x = ir.Value(name="x", shape=shape, type=ir.TensorType(kind))
    node = ir.Node("", "Add", [x, linked])
    node.outputs[0].name = "y"
    graph = ir.Graph([x], node.outputs, nodes=[node], initializers=[linked], opset_imports={"": 20}, name="g")
    model = save_in_store(ir.Model(graph, ir_version=10), store.models)
    pool, client = pool_of(Dask(closed=False), []), Dask(closed=False)
    connection, work = Connection(client, "local:2", print), Work("m", {"model": str(model.path)}, 1.0)
    assert Fleet(connection, pool, store.root, NEEDS, here=True)._order(work).files == ()
    with pytest.raises(OptimError) as caught:
        Fleet(connection, pool, store.root, NEEDS)._order(work)
    assert caught.value.reference == "weights-elsewhere"


def test_a_client_that_is_closed_is_a_cluster_that_is_lost(tmp_path: Path) -> None:
    dask = Dask(closed=True)
    with pytest.raises(OptimError, match="Client is closed") as caught:
        fleet_of(dask, tmp_path).do(WORK)
    assert caught.value.reference == "cluster-lost" and dask.tries == fleets._MOST_TRIES


@pytest.mark.parametrize(("sent_s", "away_s", "stalled"), [(0.0, 30.0, 30.0), (30.0, 0.0, 0.0), (0.0, 4.0, 0.0)])
def test_what_was_away_for_long_stood_still(
    sent_s: float, away_s: float, stalled: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its work and its files are time of the job."""
    at, replies = (
        [0.0],
        [Reply(WorkState.LACKS_FILES, "a", "here"), Reply(WorkState.DONE, "a", "here", done=Done({}))],
    )
    fleet = fleet_of(Dask(closed=False), tmp_path)

    def ask(order: object, sole: str) -> Reply:
        at[0] += 10.0 + away_s if len(replies) == 1 else 0.0
        return replace(replies.pop(0), worked_s=10.0)

    def send(order: object, reply: Reply) -> bool:
        at[0] += sent_s
        return True

    monkeypatch.setattr(fleets.time, "monotonic", lambda: at[0])
    monkeypatch.setattr(fleet, "_ask", ask)
    monkeypatch.setattr(fleet, "_send", send)
    done = fleet.do(WORK)
    assert (done.waited_s, done.stalled_s) == (sent_s + away_s, stalled)


def test_a_run_is_told_what_stood_still(tmp_path: Path) -> None:
    elsewhere: Any = SimpleNamespace(do=lambda work: Done({}, waited_s=31.0, stalled_s=30.0))
    turns = Turns("optim on a cluster", print, now=lambda: 40.0, elsewhere=True)
    runner = Runner(Store(tmp_path), print, elsewhere=elsewhere, waits=turns)
    request: Any = offer.Answer()
    runner.call(offer.JOB, request, timeout_s=60.0)
    assert turns.now() == 10.0
    heard: list[object] = []
    runner.follow(offer.JOB, request, heard.append, silence_s=60.0)
    assert heard == []
    assert turns.now() == 10.0  # the same seconds
