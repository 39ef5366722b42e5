"""What a cluster costs and gains: finished runs with two workers, the engine's part of a job, bytes of weights.

    python benchmarks/cluster/cluster.py [runs overhead weights s3 trace] [--seconds 30] [--target cpu:threads=1]
                                 [--models FOLDER] [--trace FILE]

- ``runs``: ``optim batch`` of four small models here, and again with ``--cluster local:2``, each with a cache of its
  own; clocks are exclusive. Prints the seconds of both, how many runs two workers finish in the time of one, and on
  Linux what a run uses of the machine, at the clock and beside it, with what two workers can gain at most by that.
  With ``--target cpu:threads=1`` sessions have one thread, as where services do.
- ``overhead``: a job that does next to nothing, handed to a worker many times; prints the median of what is not the
  worker's: from :meth:`Fleet.do` to its answer, less the time that the worker had the job.
- ``weights``: a run on a model of 537 MB with two workers that share no disk; prints the bytes that went to each of
  them, how often each file of weights did, and at how many MB/s.
- ``s3``: a run with two workers that share no disk and exchange files at ``s3://``, of moto's server; prints what lies
  there, and what the engine carried beside. Needs moto[server] and s3fs.
- ``trace``: a run on each of the models of FOLDER (by default the four small ones; NAME.npz has the feeds of
  NAME.onnx), one worker; writes a row for each job with its kind, seconds and bytes, for benchmarks/cluster/scale.py.

Workers are processes of this machine. On a machine that others use the figures mean little.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from processor_time import Busy, processor_s, watched_clock

import optim
import optim_plugins
from optim._engine.jobs import ingest, refuse
from optim._engine.jobs.runner import Runner
from optim._engine.plugins.registry import load_registry
from optim._engine.runs.run import run_settings, workplace_request
from optim._engine.search.settings import RunSettings
from optim._engine.store import Store
from optim.jobs import to_wire
from optim.jobs.resources import usable_processors
from optim.workplace import Work
from optim_fleet.cluster.carrier import Carrier
from optim_fleet.cluster.fleet import Fleet, fleet_of
from optim_fleet.cluster.order import File, Order, Reply

_SMALL = {"wide": (4, 512), "deep": (24, 128), "thin": (8, 256), "even": (12, 256)}
"""Products and their width, of four small models."""

_LARGE = (8, 4096)
"""8 products of 4096x4096 floats: 537 MB."""

_JOBS = 60
"""For the overhead: the median of fewer moves by a millisecond from run to run."""


def main() -> None:
    """Print the figures that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", choices=["runs", "overhead", "weights", "s3", "trace", []])
    parser.add_argument("--seconds", type=float, default=30.0, help="of the search of one run")
    parser.add_argument("--target", default="cpu", help="of runs")
    parser.add_argument("--models", type=Path)
    parser.add_argument("--trace", type=Path, default=Path("trace.json"))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name in given.what or ["runs", "overhead", "weights"]:
            if name == "trace":
                trace(root, given.models, given.trace, given.seconds)
            elif name == "overhead":
                overhead(root)
            else:
                {"runs": partial(runs, target=given.target), "weights": weights, "s3": s3}[name](root, given.seconds)


def runs(root: Path, seconds: float, target: str) -> None:
    """Four small models, here and on two workers."""
    models = root / "models"
    models.mkdir()
    for name, (count, width) in _SMALL.items():
        products(models / f"{name}.onnx", count, width)
    recipe = root / "recipe.toml"
    recipe.write_text(f'search_seconds = {seconds}\ntarget = "{target}"\n[matrix]\nsource = ["models/*.onnx"]\n')
    subprocess.run([sys.executable, "-m", "compileall", "-q", *optim.__path__, *optim_plugins.__path__], check=True)
    took: dict[str, float] = {}
    bounds: list[tuple[float, float]] = []
    for name, more in {"here": [], "local:2": ["--cluster", "local:2"]}.items():
        environment = {**os.environ, "OPTIM_CACHE_DIR": str(root / f"cache-{len(took)}")}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # else each process compiles what has changed
        command = [sys.executable, "-m", "optim", "batch", str(recipe), "-o", str(root / f"out-{len(took)}"), *more]
        began, used_s = time.monotonic(), processor_s()
        with watched_clock() as busy:
            done = subprocess.run([*command, "--json"], env=environment, check=True, stdout=subprocess.PIPE, text=True)
        took[name] = time.monotonic() - began
        each = ", ".join(f"{row['seconds']:.1f}" for row in json.loads(done.stdout)["rows"])
        print(f"runs: {len(_SMALL)} of {seconds:.0f} s of search on {target}, {name}: {took[name]:.1f} s (each {each})")
        if sys.platform == "linux":
            used_s = processor_s() - used_s
            print_use(name, busy, used_s, took[name])
            bounds.append((usable_processors() * took[name] / used_s, busy.bound(usable_processors())))
    print(f"runs: finished in the same time, two workers to none: {took['here'] / took['local:2']:.2f}")
    if bounds:
        print(
            "runs: at most {:.2f}, were no core ever idle; {:.2f}, where all waits while one times".format(*bounds[0])
        )


def print_use(name: str, busy: Busy, used_s: float, took_s: float) -> None:
    """What a batch used of the machine, for each run."""
    print(
        f"runs: {name}: {used_s / len(_SMALL):.1f} s of processor time for each run, {used_s / took_s:.2f} cores busy; "
        f"{busy.timing_s / len(_SMALL):.1f} s at the clock with {busy.timing_busy_s / max(1e-9, busy.timing_s):.2f}, "
        f"{busy.else_s / len(_SMALL):.1f} s beside it with {busy.else_busy_s / max(1e-9, busy.else_s):.2f}"
    )


def overhead(root: Path) -> None:
    """What is the engine's of a job whose files are there."""
    with machines(root / "overhead", 1) as (address, store):
        registry = load_registry()
        model = read(products(root / "one.onnx", 1, 64), store)
        settings = RunSettings(Path("one.onnx"), cluster=address)
        with fleet_of(workplace_request(settings, registry, store, print)) as fleet, fleet.working():
            target = registry.target("cpu").plain
            request = to_wire(refuse.Request(model, target, (), data_given=False))
            waited = [fleet.do(Work(refuse.JOB.module, request, 60.0)).waited_s for _ in range(_JOBS)]
    figures = [1e3 * value for value in sorted(waited[5:])]
    print(f"overhead: median {statistics.median(figures):.1f} ms, least {figures[0]:.1f}, most {figures[-1]:.1f}")


def weights(root: Path, seconds: float) -> None:
    """How often weights travel."""
    with machines(root / "weights", 2) as (address, _):
        path = products(root / "large.onnx", *_LARGE)
        size = sum(file.stat().st_size for file in root.glob("large.onnx*"))
        sent: Counter[tuple[str, str]] = Counter()
        sizes: dict[str, int] = {}
        seconds_of: defaultdict[str, float] = defaultdict(float)
        settings = RunSettings(path, cluster=address, goal="size", search_seconds=max(seconds, 120.0))
        with watched(sent, sizes, seconds_of, []):
            run_settings(settings, root / "large", print)
    total: defaultdict[str, int] = defaultdict(int)
    for (worker, name), times in sorted(sent.items()):
        total[worker] += times * sizes[name]
        if sizes[name] > 1 << 20:
            print(f"weights: {name[:20]}... of {sizes[name] / 1e6:.0f} MB to {worker}: {times} times")
    again = [times for times in sent.values() if times > 1]
    speed = sum(total.values()) / max(1e-9, sum(seconds_of.values())) / 1e6
    print(f"weights: {speed:.0f} MB/s")
    print(f"weights: the model has {size / 1e6:.0f} MB; {len(again)} files went to a worker more than once")
    for worker, count in total.items():
        print(f"weights: {worker} was sent {count / 1e6:.0f} MB in all")


def s3(root: Path, seconds: float) -> None:
    """Files by way of a bucket."""
    import fsspec

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    account = {"AWS_ACCESS_KEY_ID": "optim", "AWS_SECRET_ACCESS_KEY": "optim", "AWS_DEFAULT_REGION": "us-east-1"}
    os.environ.update(account, AWS_ENDPOINT_URL=f"http://127.0.0.1:{port}")
    quiet = subprocess.DEVNULL
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with subprocess.Popen(command, stdout=quiet, stderr=quiet) as server:
        try:
            bucket = fsspec.filesystem("s3")
            bucket.makedirs("optim")  # tried again until the server is there
            with machines(root / "s3", 2) as (address, _):
                path = products(root / "bucket.onnx", *_SMALL["wide"])
                sent: Counter[tuple[str, str]] = Counter()
                sizes: dict[str, int] = {}
                url = "s3://optim/files"
                settings = RunSettings(path, cluster=address, store_url=url, goal="size", search_seconds=seconds)
                with watched(sent, sizes, defaultdict(float), []):
                    report = run_settings(settings, root / "from-s3", print)
            there = bucket.du("optim", total=False)
        finally:
            server.kill()
    print(f"s3: {report.status}; {len(there)} files of {sum(there.values()) / 1e6:.1f} MB lie there")
    print(f"s3: the engine carried {sum(sizes[name] for _, name in sent) / 1e6:.1f} MB")


def trace(root: Path, models: Path | None, file: Path, seconds: float) -> None:
    """Write what the jobs of a run took."""
    paths = sorted(models.glob("*.onnx")) if models else []
    for name, (count, width) in _SMALL.items() if not models else ():
        paths.append(products(root / f"{name}.onnx", count, width))
    rows: dict[str, list[dict[str, Any]]] = {}
    with machines(root / "trace", 1) as (address, _):
        for path in paths:
            jobs: list[dict[str, Any]] = []
            sent: Counter[tuple[str, str]] = Counter()
            sizes: dict[str, int] = {}
            carrying: defaultdict[str, float] = defaultdict(float)
            data = path.with_suffix(".npz")
            settings = RunSettings(
                path, cluster=address, search_seconds=seconds, data=str(data) if data.is_file() else None
            )
            with watched(sent, sizes, carrying, jobs):
                began = time.monotonic()
                report = run_settings(settings, root / path.stem, print)
            speed = sum(sizes[name] for _, name in sent) / max(1e-9, sum(carrying.values()))
            whole = {"kind": "run", "seconds": time.monotonic() - began, "link_bytes_s": round(speed)}
            rows[path.stem] = [{**whole, "size_bytes": report.original.size_bytes}, *jobs]
    file.write_text(json.dumps(rows, indent=1))
    print(f"trace: {sum(map(len, rows.values()))} jobs in {file}")


@contextmanager
def watched(
    sent: Counter[tuple[str, str]], sizes: dict[str, int], carrying: dict[str, float], jobs: list[dict[str, Any]]
) -> Iterator[None]:
    """Note the jobs of a run, how often files were sent to whom, and the seconds of that by worker."""
    ask, send = Fleet._ask, Carrier.send

    def asked(fleet: Fleet, order: Order, sole: str) -> Reply:
        reply = ask(fleet, order, sole)
        made = sum(one.size_bytes for one in reply.made)
        kind, state = order.work.module.rpartition(".")[2], reply.state.value
        jobs.append(
            {"kind": kind, "state": state, "timed": order.work.timed, "seconds": reply.worked_s, "made_bytes": made}
        )
        return reply

    def sending(carrier: Carrier, file: File, worker: str) -> bool:
        began = time.monotonic()
        was_sent = send(carrier, file, worker)
        carrying[worker] += time.monotonic() - began
        sizes[file.name] = file.size_bytes
        if was_sent:
            sent[worker, file.name] += 1
            if jobs:
                jobs[-1]["sent_bytes"] = jobs[-1].get("sent_bytes", 0) + file.size_bytes
        return was_sent

    Fleet._ask, Carrier.send = asked, sending
    try:
        yield
    finally:
        Fleet._ask, Carrier.send = ask, send


@contextmanager
def machines(folder: Path, count: int) -> Iterator[tuple[str, Store]]:
    """Workers with a cache of their own each: the scheduler's address, and the store of this process."""
    import distributed

    folder.mkdir()
    os.environ["OPTIM_CACHE_DIR"] = str(folder / "cache")
    workers = []
    with distributed.LocalCluster(
        n_workers=0, dashboard_address="127.0.0.1:0", scheduler_kwargs={"dashboard": False}
    ) as cluster:
        address = cluster.scheduler_address
        command = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--nthreads", "1", "--no-nanny"]
        command += ["--no-dashboard", "--resources", "optim-clock-cpu=1"]
        try:
            for place in range(count):
                settings = {**os.environ, "OPTIM_CACHE_DIR": str(folder / f"cache{place}")}
                more = ["--local-directory", str(folder / f"dask{place}")]
                quiet = subprocess.DEVNULL
                workers.append(subprocess.Popen([*command, *more], env=settings, stdout=quiet, stderr=quiet))
            with distributed.Client(cluster) as client:
                client.wait_for_workers(count)
            yield address, Store()
        finally:
            for worker in workers:
                worker.kill()
                worker.wait()


def read(path: Path, store: Store) -> Any:
    """A model in a store."""
    request = ingest.Request(path.absolute(), store.models)
    return Runner(store, print).call(ingest.JOB, request, timeout_s=600.0).model


def products(path: Path, count: int, width: int) -> Path:
    """Write a model of some products with a Relu after each; its weights lie beside it."""
    rng = np.random.default_rng(0)
    nodes, weights, name = [], [], "x"
    for place in range(count):
        array = (rng.standard_normal((width, width)) / np.sqrt(width)).astype(np.float32)
        weights.append(numpy_helper.from_array(array, f"w{place}"))
        nodes.append(helper.make_node("MatMul", [name, f"w{place}"], [f"h{place}"]))
        name = "y" if place == count - 1 else f"r{place}"
        nodes.append(helper.make_node("Relu", [f"h{place}"], [name]))
    x, y = (helper.make_tensor_value_info(one, TensorProto.FLOAT, [16, width]) for one in "xy")
    graph = helper.make_graph(nodes, path.stem, [x], [y], weights)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    onnx.save(made, path, save_as_external_data=True, location=f"{path.name}.data", size_threshold=1024)
    return path


if __name__ == "__main__":
    main()
