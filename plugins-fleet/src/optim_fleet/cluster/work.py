"""On a worker of a cluster: do what an order says, in a process of its own, and tell what came of it."""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from optim.engine.fleet import Store, Turns, WorkerProcess, kill_all
from optim.errors import OptimError, describe_exception, disk_error
from optim.jobs import WorkerFailed, from_wire, to_wire
from optim.workplace import perform as work_here
from optim_fleet.cluster import files
from optim_fleet.cluster.describe import code_digest
from optim_fleet.cluster.order import (
    Failure,
    File,
    Order,
    Reply,
    WorkState,
    error_fields,
    incoming,
    outgoing,
    store_names,
)

_LOG = logging.getLogger("distributed.worker.optim")

_orders: Counter[str] = Counter()
_processes: dict[WorkerProcess, str] = {}
_filled: defaultdict[str, set[Path]] = defaultdict(set)
"""Folders that jobs of a run have filled, and that are called otherwise where the run keeps them: they end there."""

_UNFINISHED = ".tmp"
"""Ends the name of such a folder. What is called otherwise is never deleted with a run, whatever an order says."""

_guard = threading.Lock()


def perform(text: str) -> str:
    """What dask runs: an order as JSON, and the reply as JSON."""
    order = from_wire(Order, json.loads(text))
    reply = _perform(order)
    _LOG.info("%s", _line_of(order, reply))
    return json.dumps(to_wire(reply))


def _line_of(order: Order, reply: Reply) -> str:
    """What the log of this worker says of an order, e.g. ``run 3f2a61c0: candidate done, 1.2 s``."""
    said = f"run {order.run[:8]}: {order.work.module.rpartition('.')[2]} {reply.state}"
    said += f", {reply.worked_s:.1f} s" if reply.worked_s else ""
    said += f", {len(reply.lacks)} of them" if reply.lacks else ""
    reason = reply.failure.reason if reply.failure is not None else reply.reason
    return f"{said}: {reason}" if reason else said


async def end_run(run: str) -> None:
    """End what this worker does for a run, and keep its cache below its cap; the event loop goes on meanwhile."""
    await asyncio.to_thread(_end_run, run)


def _end_run(run: str) -> None:
    with _guard:
        if set(+_orders) == {run}:
            kill_all()  # lanes of a race too
        for process, whose in _processes.items():
            if whose == run:
                process.kill()
        filled = _filled.pop(run, set())
    for folder in filled:
        shutil.rmtree(folder, ignore_errors=True)
    with suppress(OptimError):  # of a disk that cannot be read: the run has ended
        Store().trim()


def _perform(order: Order) -> Reply:
    import platform

    from distributed import get_worker

    here = Reply(WorkState.DONE, get_worker().address, platform.node())
    if order.code != code_digest():
        return replace(here, state=WorkState.UNFIT, reason="it has another version of optim")
    try:
        store = Store()
        with store.in_use(), _noted(order.run):
            shared = (store.root / order.marker).is_file()
            lacks = () if shared else tuple(_fetched(order, store.root))
            if lacks:
                return replace(here, state=WorkState.LACKS_FILES, lacks=lacks)
            return _done(order, store.root, here, shared=shared)
    except OptimError as error:
        return replace(here, state=WorkState.UNFIT, reason=error.what, error=error_fields(error))
    except Exception as error:  # of this machine: another one does the job
        _LOG.exception("an order could not be done")
        found = disk_error(error, "its cache cannot be written") if isinstance(error, OSError) else None
        fields = error_fields(found) if found else None
        return replace(here, state=WorkState.UNFIT, reason=describe_exception(error), error=fields)


def _fetched(order: Order, root: Path) -> Iterator[str]:
    """Fetch what is lacking from where files are exchanged; yields what is not to be had there."""
    lacking = [file for file in order.files if not files.has(root, file)]
    if order.url and lacking:
        from optim_fleet.cluster.exchange import Exchange

        exchange = Exchange(order.url)
        lacking = [file for file in lacking if not exchange.fetch(file, root)]
    for file in lacking:
        yield file.name


def _done(order: Order, root: Path, here: Reply, *, shared: bool) -> Reply:
    for name in order.makes:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
    work = replace(order.work, request=incoming(order.work.request, root))
    turns, began = Turns(f"optim on a cluster, {work.module.rpartition('.')[2]}", lambda text: None), time.monotonic()
    try:
        done = work_here(work, turns, partial(_known, order.run))
    except WorkerFailed as failed:
        if failed.error is not None and failed.error.reference == "disk-full":
            return replace(here, state=WorkState.UNFIT, reason=failed.error.what, error=error_fields(failed.error))
        failure = Failure.of(failed, failed.events)
        told = from_wire(Failure, outgoing(to_wire(failure), root))
        return replace(here, state=WorkState.FAILED, failure=told, worked_s=turns.now() - began)
    answer = outgoing(done.answer, root)
    made = () if shared else tuple(_made(order, answer, root))
    folders = {(root / name).parent for name in order.makes if not shared}
    with _guard:
        _filled[order.run].update(folder for folder in folders if folder.suffix == _UNFINISHED)
    if made and order.url:
        from optim_fleet.cluster.exchange import Exchange

        Exchange(order.url).offer(made, root)
    done = replace(done, answer=answer, events=outgoing(done.events, root))
    return replace(here, done=done, made=made, worked_s=turns.now() - began)


def _made(order: Order, answer: Any, root: Path) -> Iterator[File]:
    given = {file.name for file in order.files}
    names = dict.fromkeys(files.with_parts(root, [*order.makes, *store_names(answer)]))
    yield from (files.file_at(root, name) for name in names if name not in given)


@contextmanager
def _known(run: str, process: WorkerProcess) -> Iterator[None]:
    """Know of a process while it is under way, so that it ends with its run."""
    with _guard:
        _processes[process] = run
    try:
        yield
    finally:
        with _guard:
            _processes.pop(process, None)


@contextmanager
def _noted(run: str) -> Iterator[None]:
    """Know that something is under way for a run."""
    with _guard:
        _orders[run] += 1
    try:
        yield
    finally:
        with _guard:
            _orders[run] -= 1
