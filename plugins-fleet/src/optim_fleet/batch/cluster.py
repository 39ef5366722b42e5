"""Where the runs of a batch run: threads that hold a program each, or workers of dask.

With dask each run is a task, and its program runs on the worker. Files stay where they are: sources, feeds and the
batch's folder are on a disk that all workers see. Workers of ``local:N`` are threads of this process, which wait for
programs: a scheduler for that took 0.6 s of processor time to start, and 2 s more in a minute.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from optim.errors import ExitStatus, OptimError
from optim_fleet.batch.program import end_programs
from optim_fleet.cluster.connect import client_of, is_local, local_count
from optim_fleet.cluster.describe import Worker, describe, describe_there, read, what_differs


@contextmanager
def executor_of(cluster: str, at_once: int, targets: Sequence[str], folder: Path) -> Iterator[Executor]:
    """An executor for :func:`optim_fleet.batch.program.run_program`; runs that go on when it is left are ended.

    Args:
        cluster: empty, or ``local:N``: this process; else see :func:`optim_fleet.cluster.connect.client_of`.
        at_once: runs at the same time, where there is no cluster.
        targets: that the runs need.
        folder: of the batch; every worker writes there.

    Raises:
        OptimError[cluster-unfit]: the workers differ from each other or from this process, lack a target, or do not
            see the folder.
        OptimError: those of :func:`optim_fleet.cluster.connect.client_of`.
    """
    if not cluster or is_local(cluster):
        count = local_count(cluster) if cluster else at_once
        executor = ThreadPoolExecutor(count, thread_name_prefix="optim-batch")
        try:
            yield executor
        finally:
            executor.shutdown(wait=False, cancel_futures=True)
            end_programs()
        return
    with client_of(cluster) as client:
        _require_fit(client, cluster, targets, folder)
        try:
            yield client.get_executor(pure=False)
        finally:
            client.run(end_programs)


def _require_fit(client: Any, cluster: str, targets: Sequence[str], folder: Path) -> None:
    """Refuse workers on which a run would not be what it is here."""
    from optim_fleet.batch.runs import WORK_FOLDER

    asked = str((folder / WORK_FOLDER).absolute()), list(targets)
    found: Mapping[str, str] = client.run(describe_there, *asked)
    workers = {address: read(text) for address, text in found.items()}
    problem = _unfit(read(describe(*asked)), workers, targets)
    if problem:
        raise OptimError(
            "cluster-unfit",
            f"the workers of {cluster} cannot run this",
            problem,
            "give every worker the same optim, plugins and kind of machine, and a disk that all of them see",
            status=ExitStatus.TARGET_UNAVAILABLE,
        )


def _unfit(here: Worker, found: Mapping[str, Worker], targets: Sequence[str]) -> str:
    if not found:
        return "it has no workers"
    for address, worker in found.items():
        if (worker.core, worker.plugins, worker.libraries) != (here.core, here.plugins, here.libraries):
            return f"{address} has {worker.version}, this process {here.version}, and their sources differ"
        if not worker.sees_folder:
            return f"{address} on {worker.host} cannot write to the batch's folder"
        missing = [name for name in targets if name not in worker.targets]
        if missing:
            return f"{address} on {worker.host} has no target {missing[0]}; it has {', '.join(worker.usable)}"
    first_address, first = next(iter(found.items()))
    for address, worker in found.items():
        if worker.kind != first.kind:
            pair = f"{address} on {worker.host} and {first_address} on {first.host}"
            apart = what_differs(worker.kind, first.kind)
            return f"figures of {pair} could not be compared: the one has {apart}"
    return ""
