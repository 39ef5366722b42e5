"""What a run on workers delivers when one of them, or the scheduler, is killed in the middle of each kind of job.

    python benchmarks/cluster/cluster_faults.py [KIND ...] [--seconds 20]

Two workers that share no disk, processes of this machine, do the jobs of a run whose result no clock decides. First
nobody is killed. Then, for each kind of job that was seen, a run in which the worker that has such a job is killed with
SIGKILL while it works on it (``kernels`` takes hundredths of a second: as its process is about to start); another
worker is started in its place. ``scheduler`` kills the scheduler during a candidate, and starts it and the workers
again. Each run has caches of its own. Prints a row for each: what was killed, after which time of the job, what came of
the run, and whether the model and its drift are those of the first run. Ends with status 1 where they are not.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from cluster import products

from optim._engine.runs.run import run_settings
from optim._engine.search.settings import Named, RunSettings
from optim.passes import Stage
from optim_fleet.cluster.fleet import Fleet
from optim_fleet.cluster.order import Order, Reply

_INTO_JOB_S = 0.05
"""After an order was sent; jobs that have ended by then are let go, and the next one of the kind is waited for."""

_TOO_SHORT = ("kernels",)
"""Kinds of job that end within hundredths of a second: what forks their processes is stopped, and they wait for it."""

_HELD_S = 0.5
"""After an order of such a kind was sent: the worker has it by then."""

_MODEL = (8, 256)
"""Products and their width."""

_SETTINGS: dict[str, dict[str, Any]] = {
    "named": {"named": (Named("ort.quantize-dynamic", {"per_channel": True}),), "max_drift": 1.0},
    "repaired": {"stages": (Stage.QUANTIZE,), "goal": "size", "max_drift": 0.012},
}
"""Runs in which no clock decides which model is delivered: of a pass that is named, and of what has to be repaired."""


class Machines:
    """A scheduler and two workers, each with a cache of its own; any of them can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{self._port}"
        self._folder = folder
        self._count = 0
        self.scheduler = self._start("scheduler", "--host", "127.0.0.1", "--port", str(self._port), "--no-dashboard")
        self.workers: list[subprocess.Popen[bytes]] = []
        self.add_workers()

    def add_workers(self) -> None:
        """Start workers until there are two."""
        self.workers = [one for one in self.workers if one.poll() is None]
        while len(self.workers) < 2:
            local = str(self._folder / f"dask{self._count}")
            more = ["--nthreads", "1", "--no-nanny", "--no-dashboard", "--resources", "optim-clock-cpu=1"]
            self.workers.append(self._start("worker", self.address, *more, "--local-directory", local))

    def restart_scheduler(self) -> None:
        """Kill it, and start it and the workers, which end with it."""
        self.scheduler.send_signal(signal.SIGKILL)
        self.scheduler.wait()
        self.scheduler = self._start("scheduler", "--host", "127.0.0.1", "--port", str(self._port), "--no-dashboard")
        for worker in self.workers:
            with suppress(subprocess.TimeoutExpired):
                worker.wait(10.0)
        self.add_workers()

    def end(self) -> None:
        """End all of them."""
        for one in (*self.workers, self.scheduler):
            one.kill()
            one.wait()

    def _start(self, kind: str, *arguments: str) -> subprocess.Popen[bytes]:
        self._count += 1
        settings = {**os.environ, "OPTIM_CACHE_DIR": str(self._folder / f"cache{self._count}")}
        command = [sys.executable, "-m", f"distributed.cli.dask_{kind}", *arguments]
        with (self._folder / f"{kind}{self._count}.log").open("wb") as log:
            return subprocess.Popen(command, env=settings, stdout=log, stderr=log)


@contextmanager
def machines(folder: Path) -> Iterator[Machines]:
    """Two workers that are there."""
    import distributed

    folder.mkdir()
    made = Machines(folder)
    try:
        with distributed.Client(made.address, timeout=60) as client:
            client.wait_for_workers(2, timeout=60)
        yield made
    finally:
        made.end()


class Killer:
    """Kills whoever has a job of a kind, once; notes all kinds that were ordered.

    Args:
        there: who can be killed.
        kind: of job; ``scheduler``: the scheduler during a candidate; empty: nobody is killed.
    """

    def __init__(self, there: Machines, kind: str) -> None:
        self._there, self._kind = there, "candidate" if kind == "scheduler" else kind
        self._scheduler = kind == "scheduler"
        self._guard = threading.Lock()
        self.kinds: dict[str, int] = {}
        self.killed = ""

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Look at what a fleet orders."""
        ask = Fleet._ask

        def asked(fleet: Fleet, order: Order, sole: str) -> Reply:
            kind = order.work.module.rpartition(".")[2]
            with self._guard:
                self.kinds[kind] = self.kinds.get(kind, 0) + 1
            ended = threading.Event()
            if kind == self._kind and not self.killed:
                held = self._held() if kind in _TOO_SHORT else []
                threading.Thread(target=self._kill, args=(ended, held), daemon=True).start()
            try:
                return ask(fleet, order, sole)
            finally:
                ended.set()

        Fleet._ask = asked  # type: ignore[method-assign]
        try:
            yield
        finally:
            Fleet._ask = ask  # type: ignore[method-assign]

    def _held(self) -> list[Any]:
        """Stop what forks processes for the workers' jobs."""
        import psutil

        children = [child for one in self._there.workers for child in psutil.Process(one.pid).children()]
        servers = [child for child in children if any("fork_server" in word for word in child.cmdline())]
        for one in servers:
            one.suspend()
        return servers

    def _kill(self, ended: threading.Event, held: list[Any]) -> None:
        import psutil

        try:
            self._kill_who_has_it(ended, _HELD_S if held else _INTO_JOB_S)
        finally:
            for one in held:
                with suppress(psutil.Error):
                    one.resume()

    def _kill_who_has_it(self, ended: threading.Event, into_s: float) -> None:
        import distributed
        import psutil

        began = time.monotonic()
        if ended.wait(into_s):
            return
        with self._guard:
            if self.killed:
                return
            busy = [one for one in self._there.workers if _works(psutil.Process(one.pid))]
            if self._scheduler:
                self.killed = f"scheduler {time.monotonic() - began:.1f} s into a candidate"
                self._there.restart_scheduler()
                return
            with distributed.Client(self._there.address, timeout=30) as client:
                pids = client.run(os.getpid)
                doing = [pids[address] for address, tasks in client.processing().items() if tasks]
            found = [one for one in self._there.workers if one.pid in doing]
            if ended.is_set() or not found:
                return
            victim = next((one for one in found if one in busy), found[0])
            victim.send_signal(signal.SIGKILL)
            self.killed = f"worker {time.monotonic() - began:.1f} s into it"
            victim.wait()
            self._there.add_workers()


def _works(process: Any) -> bool:
    return any(child.cpu_times().user > 0 for child in process.children(recursive=True))


def run(root: Path, name: str, settings: str, kind: str, seconds: float) -> tuple[dict[str, Any], Killer]:
    """One run; what came of it."""
    folder = root / f"{name}-{kind or 'nobody'}"
    os.environ["OPTIM_CACHE_DIR"] = str(folder / "own")
    with machines(folder) as there:
        killer = Killer(there, kind)
        asked = RunSettings(root / "model.onnx", cluster=there.address, search_seconds=seconds, **_SETTINGS[settings])
        with killer.watching():
            began = time.monotonic()
            report = run_settings(asked, folder / "out", lambda text: None)
            took = time.monotonic() - began
    model = folder / "out" / "model.onnx"
    drifts = {
        json.dumps([step.pass_name, step.options], sort_keys=True, default=str): step.drift
        for step in report.steps
        if step.drift is not None
    }
    digest = hashlib.sha256(model.read_bytes()).hexdigest() if model.is_file() else "none"
    found = {"status": report.status, "digest": digest, "drifts": drifts, "seconds": took, "notes": report.notes}
    return found, killer


def main() -> None:
    """Print a row for each run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*")
    parser.add_argument("--seconds", type=float, default=20.0, help="of the search of one run")
    given = parser.parse_args()
    wrong, seen = 0, set()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        products(root / "model.onnx", *_MODEL)
        for settings in _SETTINGS:
            first, killer = run(root, settings, settings, "", given.seconds)
            print(
                f"{settings}: {first['status']} in {first['seconds']:.0f} s, {first['digest'][:12]}, {killer.kinds}",
                flush=True,
            )
            wanted = given.kinds or [*killer.kinds, *["scheduler"] * (settings == "named")]
            for kind in [one for one in wanted if one not in seen and (one in killer.kinds or one == "scheduler")]:
                found, hit = run(root, settings, settings, kind, given.seconds)
                common = found["drifts"].keys() & first["drifts"].keys()
                same = found["digest"] == first["digest"] and found["status"] == first["status"]
                same = same and all(found["drifts"][one] == first["drifts"][one] for one in common)
                told = "the same model" if same else f"ANOTHER MODEL {found['digest'][:12]}"
                seen |= {kind} if hit.killed else set()
                wrong += not same
                print(
                    f"{settings}: {kind}: {hit.killed or 'not killed: each had ended'}; {found['status']} in "
                    f"{found['seconds']:.0f} s, {told}, "
                    f"{len(common)} drifts compared",
                    flush=True,
                )
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
