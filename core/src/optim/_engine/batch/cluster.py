"""Where the runs of a batch run: threads that hold a program each, or workers of dask.

With dask each run is a task, and its program runs on the worker. Files stay where they are: sources, feeds and the
batch's folder are on a disk that all workers see.
"""

from __future__ import annotations

import importlib
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from optim._engine.batch.program import end_programs
from optim.errors import ExitStatus, OptimError, describe_exception

CONNECT_S = 10
"""An address where nobody listens is named within this time."""

_LOCAL = ("127.0.0.1", "localhost", "[::1]")


@contextmanager
def executor_of(cluster: str, at_once: int, targets: Sequence[str], folder: Path) -> Iterator[Executor]:
    """An executor for :func:`optim._engine.batch.program.run_program`; runs that go on when it is left are ended.

    Args:
        cluster: empty: this process; ``local:N``, an address of a scheduler, or ``package.module:function``.
        at_once: runs at the same time, where there is no cluster.
        targets: that the runs need.
        folder: of the batch; every worker writes there.

    Raises:
        OptimError[bad-cluster]: the text names none.
        OptimError[cluster-missing]: dask is not installed.
        OptimError[cluster-unreachable]: nobody answers at the address.
        OptimError[cluster-unencrypted]: the address is on another machine, and nothing is encrypted.
        OptimError[cluster-unfit]: the workers differ from each other or from this process, lack a target, or do not
            see the folder.
    """
    if not cluster:
        executor = ThreadPoolExecutor(at_once, thread_name_prefix="optim-batch")
        try:
            yield executor
        finally:
            executor.shutdown(wait=False, cancel_futures=True)
            end_programs()
        return
    with _client(cluster) as client:
        _require_fit(client, cluster, targets, folder)
        try:
            yield client.get_executor(pure=False)
        finally:
            client.run(end_programs)


@contextmanager
def _client(cluster: str) -> Iterator[Any]:
    try:
        import distributed
    except ImportError as error:
        raise OptimError(
            "cluster-missing",
            "--cluster needs dask",
            str(error),
            'pip install "optim-core[cluster]"',
            status=ExitStatus.USAGE,
        ) from error
    kind, _, rest = cluster.partition(":")
    if kind == "local":
        workers = _count(rest, cluster)
        with (
            distributed.LocalCluster(
                n_workers=workers, threads_per_worker=1, dashboard_address=None, silence_logs=logging.ERROR
            ) as local,
            distributed.Client(local) as client,
        ):
            yield client
    elif "://" in cluster:
        _require_private(cluster)
        try:
            client = distributed.Client(cluster, timeout=CONNECT_S)
        except (OSError, ValueError, TimeoutError) as error:
            raise OptimError(
                "cluster-unreachable",
                f"no scheduler answers at {cluster}",
                describe_exception(error),
                "start one: dask scheduler; then a worker on each machine: dask worker ADDRESS --nthreads 1",
                status=ExitStatus.TARGET_UNAVAILABLE,
            ) from error
        with client:
            yield client
    elif kind and rest and "/" not in cluster:
        with _made_by(kind, rest, cluster) as client:
            yield client
    else:
        raise _bad(cluster)


def _count(text: str, cluster: str) -> int:
    if not text:
        return max(1, (os.cpu_count() or 1) // 2)
    if not text.isdigit() or int(text) < 1:
        raise _bad(cluster)
    return int(text)


@contextmanager
def _made_by(module: str, name: str, cluster: str) -> Iterator[Any]:
    """The client of a user's function, which returns a client or a cluster of dask."""
    import distributed

    try:
        made = getattr(importlib.import_module(module), name)()
    except Exception as error:  # code of the user's
        raise OptimError(
            "bad-cluster",
            f"{cluster} gives no cluster",
            describe_exception(error),
            "name a function without arguments that returns a Client or a cluster of dask",
            status=ExitStatus.USAGE,
        ) from error
    if isinstance(made, distributed.Client):
        with made:
            yield made
        return
    with made, distributed.Client(made) as client:
        yield client


def _bad(cluster: str) -> OptimError:
    return OptimError(
        "bad-cluster",
        f"--cluster {cluster} names no cluster",
        "it is none of local, local:N, tcp://HOST:PORT, tls://HOST:PORT and package.module:function",
        "--cluster local:2",
        status=ExitStatus.USAGE,
    )


def _require_private(address: str) -> None:
    """What runs on a cluster is code: who can write to an open connection can run anything."""
    import distributed

    protocol, _, rest = address.partition("://")
    host = rest.rpartition(":")[0] or rest
    if protocol == "tls" or host in _LOCAL:
        return
    if protocol == "tcp" and distributed.Security().require_encryption:
        return  # dask itself refuses it
    raise OptimError(
        "cluster-unencrypted",
        f"{address} is another machine, and the connection is not encrypted",
        "whoever can write to it can run code on every machine of the cluster",
        "tls://HOST:PORT with certificates, as https://distributed.dask.org/en/stable/tls.html says; or a tunnel to a "
        "port of this machine",
        status=ExitStatus.USAGE,
    )


def _require_fit(client: Any, cluster: str, targets: Sequence[str], folder: Path) -> None:
    """Refuse workers on which a run would not be what it is here."""
    from optim._engine.batch.describe import Worker, describe

    found: Mapping[str, Worker] = client.run(describe, str(folder.absolute()))
    problem = _unfit(describe(str(folder.absolute())), found, targets)
    if problem:
        raise OptimError(
            "cluster-unfit",
            f"the workers of {cluster} cannot run this",
            problem,
            "give every worker the same optim, plugins and kind of machine, and a disk that all of them see",
            status=ExitStatus.TARGET_UNAVAILABLE,
        )


def _unfit(here: Any, found: Mapping[str, Any], targets: Sequence[str]) -> str:
    if not found:
        return "it has no workers"
    for address, worker in found.items():
        if worker.code != here.code:
            return f"{address} has {worker.version}, this process {here.version}, and their sources differ"
        if not worker.sees_folder:
            return f"{address} on {worker.host} cannot write to the batch's folder"
        missing = [name for name in targets if name not in worker.targets]
        if missing:
            return f"{address} on {worker.host} has no target {missing[0]}; it has {', '.join(worker.targets)}"
    kinds = {worker.machine: worker.host for worker in found.values()}
    if len(kinds) > 1:
        return f"their figures could not be compared: {' and '.join(sorted(kinds.values()))} are different machines"
    return ""
