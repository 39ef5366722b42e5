"""Faults of a cluster under a run: workers and schedulers are killed, full, or of another version."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from dask_machines import Machines, Scheduler, machines
from feed_models import FLOAT, build, constant, value
from onnx import helper, save

from optim._engine.recipes.lock import Lock, load_recipe_or_lock
from optim._engine.runs.run import run_settings
from optim._engine.search.explore.kernel_gains import KernelGains
from optim._engine.search.lane_costs import LaneCosts
from optim._engine.search.settings import Named, RunSettings
from optim.errors import OptimError
from optim.passes import Stage
from optim_fleet.cluster.fleet import Fleet
from optim_fleet.cluster.order import Order, Reply

_INSTALLED = pytest.mark.skipif(find_spec("distributed") is None, reason="dask is not installed")
pytestmark = [pytest.mark.faults, pytest.mark.slow, _INSTALLED]

SOURCE = Path(__file__).parents[2] / "core" / "src" / "optim"
_TIMED: dict[str, Any] = {"goal": "latency", "named": (), "stages": (), "search_seconds": 60.0}
_MORE: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("kernels", "session_digests"), _TIMED),
    "arrival": {**_TIMED, "target": "cpu,openvino"},
    "repair_job": {"max_drift": 0.006, "named": (), "search_seconds": 60.0},
    "blame_job": {"max_drift": 1e-6, "named": (), "search_seconds": 60.0},
}
"""What a run must be asked to have a job of a kind; where it is after latency, what comes out depends on the clock. A
race for size has lanes too, and what it delivers does not."""


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(LaneCosts, "pace", 0.05)
    monkeypatch.setattr(KernelGains, "measures", True)
    monkeypatch.setenv("OPTIM_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Machines]:
    with machines(tmp_path, 2) as made:
        yield made


def products(path: Path, count: int = 4) -> Path:
    """Write some products with weights of 256 KiB each."""
    rng = np.random.default_rng(0)
    weights = [constant(f"w{i}", rng.standard_normal((256, 256)).astype(np.float32) / 16) for i in range(count)]
    names = ["x", *(f"h{i}" for i in range(count - 1)), "y"]
    nodes = [helper.make_node("MatMul", [names[i], f"w{i}"], [names[i + 1]]) for i in range(count)]
    save(build(nodes, [value("x", FLOAT, [1, 256])], [value("y", FLOAT, [1, 256])], weights), path)
    return path


def smaller(model: Path, cluster: str = "", **more: Any) -> RunSettings:
    """What comes out the same whatever the clock says."""
    named = (Named("ort.quantize-dynamic", {"per_channel": True}),)
    given = {"goal": "size", "stages": (Stage.QUANTIZE,), "named": named, "max_drift": 1.0, "search_seconds": 20.0}
    return RunSettings(model, cluster=cluster, **{**given, **more})


def digest(folder: Path) -> str:
    """Of the model that was delivered."""
    lock = load_recipe_or_lock(folder / "recipe.lock.toml")
    assert isinstance(lock, Lock)
    return lock.result.model_digest


def at_the_job(monkeypatch: pytest.MonkeyPatch, kind: str, strike: Callable[[psutil.Process], None]) -> list[str]:
    """Strike the worker that has begun a job of a kind, once, as soon as the job's process is there."""
    struck: list[str] = []
    ask = Fleet._ask

    def watched(fleet: Fleet, order: Order, sole: str) -> Reply:
        if not struck and order.work.module.endswith(f".{kind}"):
            struck.append(kind)
            pids = {pid: _children(pid) for pid in fleet._connection.client.run(os.getpid).values()}
            threading.Thread(target=_strike, args=(pids, strike, struck), daemon=True).start()
        return ask(fleet, order, sole)

    monkeypatch.setattr(Fleet, "_ask", watched)
    return struck


def _children(pid: int) -> set[int]:
    return {child.pid for child in psutil.Process(pid).children(recursive=True)}


def _strike(before: dict[int, set[int]], strike: Callable[[psutil.Process], None], struck: list[str]) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for pid, known in before.items():
            if _children(pid) - known:
                struck.append("struck")
                strike(psutil.Process(pid))
                return
        time.sleep(0.002)


@pytest.mark.parametrize(
    "kind",
    [
        "refuse",
        "prepare",
        "kernels",
        "arrival",
        "offer",
        "candidate",
        "session_digests",
        "repair_job",
        "race_job",
        "nodes_timed",
        "blame_job",
    ],
)
def test_a_worker_is_killed_in_the_middle_of_a_job(
    kind: str, two: Machines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = products(tmp_path / "m.onnx")
    struck = at_the_job(monkeypatch, kind, psutil.Process.kill)
    more = _MORE.get(kind, {})
    far = run_settings(smaller(model, two.address, **more), tmp_path / "far", print)
    assert struck == [kind, "struck"]
    assert far.result is not None or kind in ("repair_job", "blame_job")  # where perhaps nothing keeps so close
    if not more:
        monkeypatch.setenv("OPTIM_CACHE_DIR", str(tmp_path / "another"))
        run_settings(smaller(model), tmp_path / "near", print)
        assert digest(tmp_path / "far") == digest(tmp_path / "near")


def test_the_last_worker_is_killed_and_another_comes(
    two: Machines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []

    def all_of_them(worker: psutil.Process) -> None:
        for process in two.started:
            process.kill()
        time.sleep(3)
        two.add()

    at_the_job(monkeypatch, "candidate", all_of_them)
    report = run_settings(smaller(products(tmp_path / "m.onnx"), two.address), tmp_path / "out", said.append)
    assert report.result is not None
    assert any("no worker that can take part is left" in text for text in said)


def test_all_workers_are_gone_for_good(two: Machines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("optim_fleet.cluster.connection._PATIENCE_S", 3.0)
    at_the_job(monkeypatch, "candidate", lambda worker: [process.kill() for process in two.started])
    with pytest.raises(OptimError) as caught:
        run_settings(smaller(products(tmp_path / "m.onnx"), two.address), tmp_path / "out", print)
    assert caught.value.reference == "cluster-lost"
    two.add()
    two.wait(1)
    report = run_settings(smaller(products(tmp_path / "m.onnx"), two.address), tmp_path / "out", print)
    assert report.result is not None and report.search.from_cache > 0  # nothing is lost


def test_the_scheduler_is_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler = Scheduler(tmp_path)
    made = Machines(tmp_path, scheduler.address)

    def again(worker: psutil.Process) -> None:
        scheduler.kill()
        time.sleep(2)
        scheduler.start()
        made.add()

    try:
        made.add()
        made.wait(1)
        struck = at_the_job(monkeypatch, "candidate", again)
        model = products(tmp_path / "m.onnx")
        report = run_settings(smaller(model, scheduler.address), tmp_path / "far", print)
    finally:
        made.end()
        scheduler.kill()
    assert struck == ["candidate", "struck"] and report.result is not None


def test_a_worker_whose_disk_is_full(tmp_path: Path) -> None:
    said: list[str] = []
    with machines(tmp_path, 0) as made:
        made.add(largest_file_kib=256)
        made.wait(1)
        with pytest.raises(OptimError) as caught:
            run_settings(smaller(products(tmp_path / "m.onnx"), made.address), tmp_path / "far", said.append)
        assert caught.value.reference in ("disk-full", "cluster-unfit") and "no room" in str(caught.value)
        made.add()
        made.wait(2)
        report = run_settings(smaller(products(tmp_path / "m.onnx"), made.address), tmp_path / "far", said.append)
    assert report.result is not None
    assert any("is left out" in text and "no room" in text for text in said)


def test_a_worker_with_another_version(tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(SOURCE, other / "optim", ignore=shutil.ignore_patterns("__pycache__"))
    (other / "optim" / "_engine" / "another.py").write_text("# another version\n")
    said: list[str] = []
    with machines(tmp_path, 0) as made:
        made.add(environment={"PYTHONPATH": os.pathsep.join([str(other), os.environ.get("PYTHONPATH", "")])})
        made.wait(1)
        with pytest.raises(OptimError, match="their sources differ"):
            run_settings(smaller(products(tmp_path / "m.onnx"), made.address), tmp_path / "far", said.append)
        made.add()
        made.wait(2)
        report = run_settings(smaller(products(tmp_path / "m.onnx"), made.address), tmp_path / "far", said.append)
    assert report.result is not None
    assert any("is left out" in text and "their sources differ" in text for text in said)
