"""Which workers take part. The machines are made up: processors of several kinds are not here."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from optim.errors import OptimError
from optim.jobs.wire import to_wire
from optim_fleet.cluster.describe import Worker, WorkerDevice, describe, read, what_differs
from optim_fleet.cluster.pool import Needs, Pool

WORKER = Worker(
    host="board",
    version="optim 1",
    core="core",
    plugins={"ort": "1", "more": "1"},
    machine="A/2",
    machine_key="board/A/2",
    runtimes={"onnxruntime": "1.30"},
    targets={"cpu": WorkerDevice(), "npu": WorkerDevice("no /dev/npu")},
)
NEEDS = Needs("core", "optim 1", {"ort": "1"}, ("cpu",), ("cpu",), "optim-clock-cpu")


class Client:
    """Dask's client, as far as a pool asks it."""

    def __init__(self, workers: dict[str, object], without_clock: tuple[str, ...] = ()) -> None:
        self.workers = workers
        self.without_clock = without_clock

    @property
    def scheduler(self) -> Client:
        return self

    def sync(self, function: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        return function()

    def identity(self) -> dict[str, Any]:
        clocks = {name: {} if name in self.without_clock else {"optim-clock-cpu": 1.0} for name in self.workers}
        return {"workers": {name: {"nthreads": 1, "resources": clocks[name]} for name in self.workers}}

    def run(self, function: object, *arguments: object, workers: list[str], on_error: str) -> dict[str, object]:
        found = {name: self.workers[name] for name in workers}
        return {name: json.dumps(to_wire(one)) if isinstance(one, Worker) else one for name, one in found.items()}


def pool_of(client: Client, said: list[str], needs: Needs = NEEDS) -> Pool:
    return Pool(lambda: client, "tcp://here", needs, said.append)


def test_of_a_mixed_pool_the_kind_that_most_have_takes_part() -> None:
    said: list[str] = []
    client = Client({"a": WORKER, "b": WORKER, "c": replace(WORKER, machine="B/64")})
    pool = pool_of(client, said)
    pool.settle()
    assert [one.address for one in pool.fit] == ["a", "b"]
    assert said == ["c on board is left out: it is another kind of machine: B/64 in place of A/2"]


def test_a_worker_that_comes_later_is_held_to_the_same() -> None:
    said: list[str] = []
    client = Client({"a": WORKER})
    pool = pool_of(client, said)
    pool.settle()
    client.workers |= {"b": WORKER, "c": replace(WORKER, core="other")}
    pool.refresh()
    assert [one.address for one in pool.fit] == ["a", "b"]
    assert "their sources differ" in said[0]
    del client.workers["a"]
    pool.refresh()
    assert [one.address for one in pool.fit] == ["b"]


def test_who_has_no_clock_makes_candidates_and_times_nothing() -> None:
    pool = pool_of(Client({"a": WORKER, "b": WORKER}, without_clock=("b",)), [])
    pool.settle()
    assert [one.address for one in pool.fit] == ["a", "b"]
    assert [one.address for one in pool.timing] == ["a"]


@pytest.mark.parametrize(
    ("worker", "reason"),
    [
        (replace(WORKER, core="other"), "their sources differ"),
        (replace(WORKER, plugins={}), "it lacks plugin ort"),
        (replace(WORKER, plugins={"ort": "2"}), "its plugin ort, or a library of that, has another version"),
        (replace(WORKER, targets={"npu": WorkerDevice()}), "it has no target cpu; it has npu"),
        (replace(WORKER, targets={"cpu": WorkerDevice("no driver")}), "target cpu cannot be used there: no driver"),
        (ModuleNotFoundError("No module named 'optim'"), "it has another version of optim"),
    ],
)
def test_why_nobody_can_take_part(worker: object, reason: str) -> None:
    pool = pool_of(Client({"a": worker}), [])
    with pytest.raises(OptimError) as caught:
        pool.settle()
    assert caught.value.reference == "cluster-unfit" and reason in caught.value.cause
    assert "--resources optim-clock-cpu=1" in caught.value.fix


def test_all_plugins_that_a_worker_lacks_are_named_with_the_flags_that_leave_them_out() -> None:
    needs = replace(NEEDS, plugins={"ort": "1", "inc": "1", "house": "1"})
    with pytest.raises(OptimError) as caught:
        pool_of(Client({"a": WORKER}), [], needs).settle()
    assert caught.value.cause == "a on board: it lacks plugins house, inc"
    assert caught.value.fix.endswith(
        "; or leave out what the workers do not have: --disable-plugin house --disable-plugin inc"
    )


def test_who_is_there_is_named_where_the_clock_is_missing() -> None:
    with pytest.raises(OptimError) as caught:
        pool_of(Client({"a": WORKER}, without_clock=("a",)), []).settle()
    assert caught.value.cause == "a on board (targets cpu; no clock) lacks optim-clock-cpu"


def test_of_two_kinds_what_differs_is_said() -> None:
    other = replace(WORKER, runtimes={"onnxruntime": "1.31"}, libraries={"torch": "2"})
    assert what_differs(WORKER.kind, other.kind) == "onnxruntime 1.30 in place of onnxruntime 1.31, torch 2"
    assert what_differs(other.kind, replace(other, libraries={}).kind) == "torch 2 in place of nothing"


def test_what_dask_refreshes_by_itself_takes_no_worker_away() -> None:
    import dask
    from distributed import Client as DaskClient
    from distributed import LocalCluster

    here = read(describe())
    needs = Needs(here.core, here.version, {}, (), (), "")
    often = dask.config.set({"distributed.client.scheduler-info-interval": "1ms"})
    made = LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None)
    with often, made as cluster, DaskClient(cluster) as client:
        pool = Pool(lambda: client, "tcp://here", needs, lambda _: None)
        pool.settle()
        for _ in range(150):  # the answer of scheduler_info() lacked the worker in 27 of 1000
            pool.refresh()
            assert len(pool.fit) == 1
