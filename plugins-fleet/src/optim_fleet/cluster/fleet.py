"""The workers of a cluster as the place where a run's jobs are done."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from optim.errors import describe_exception, disk_error, is_disk_full
from optim.jobs import WorkerFailed, from_wire, to_wire
from optim.target import Target
from optim.workplace import Done, Work, WorkplaceRequest
from optim_fleet.cluster import files
from optim_fleet.cluster.carrier import Carrier
from optim_fleet.cluster.connect import client_of, is_local
from optim_fleet.cluster.connection import Connection, LostError
from optim_fleet.cluster.exchange import Exchange
from optim_fleet.cluster.order import Order, Reply, WorkState, error_of, incoming, outgoing, store_names
from optim_fleet.cluster.pool import Needs, Pool, needs_of, seen_by
from optim_fleet.cluster.work import end_run, perform

_LOOK_S = 1.0
"""While a job is waited for, it is looked at so often whether somebody is left who can do it."""

_STALLED_FROM_S = 5.0
"""A job that waited longer, beside its files, waited for a network, a scheduler or a worker that was away, or for
another run's jobs. With less, what is the engine's own on a busy machine would be no search time."""

_MOST_TRIES = 12
"""Of one job: workers come and go, and files are sent before the second."""


class Fleet:
    """A :class:`~optim.workplace.Workplace` of dask's workers, for one run.

    Args:
        connection: to the cluster.
        pool: the workers.
        store: folder of this machine's store.
        needs: of the run.
        url: where files are exchanged; empty: this process carries them.
        here: whether the workers were started here, and have the store and every file of this machine.

    Attributes:
        carrier: of files.
        seen: a target as it is where races are run.
    """

    def __init__(
        self, connection: Connection, pool: Pool, store: Path, needs: Needs, url: str = "", *, here: bool = False
    ) -> None:
        self._connection = connection
        self._pool = pool
        self._root = store
        self._needs = needs
        self._url = url
        self._here = here
        self._exchange = Exchange(url) if url else None
        self._run = uuid.uuid4().hex
        self._marker = self._root / "active" / f"{self._run}.cluster"
        self._ended = False
        self.carrier = Carrier(connection, self._root, self._run)
        self.seen: Callable[[Target], Target] = lambda target: target

    @property
    def at_once(self) -> int:
        """How many jobs the workers do at the same time."""
        return max(1, sum(one.threads for one in self._pool.fit))

    @property
    def machine(self) -> str:
        """What a timing made there depends on: the very machine where there is one, else the kind."""
        keys = {one.worker.machine_key for one in self._pool.timing}
        return keys.pop() if len(keys) == 1 else f"cluster of {self._pool.kind}"

    @property
    def libraries(self) -> Mapping[str, str]:
        """Versions of libraries that plugins can do without, as the workers have them; empty where they are as here."""
        found = next((one.worker.libraries for one in self._pool.timing), self._needs.libraries)
        return {} if found == self._needs.libraries else found

    @property
    def available_bytes(self) -> int:
        """Free memory where races are run."""
        return min((one.worker.memory_bytes for one in self._pool.timing), default=0)

    @property
    def report(self) -> Mapping[str, Any]:
        """What a report says of the machine where races are run."""
        return next(iter(one.worker.report for one in self._pool.timing), {})

    def now(self) -> float:
        """Seconds of this machine."""
        return time.monotonic()

    @contextmanager
    def working(self) -> Iterator[None]:
        """Take jobs; what is under way when this is left is ended, and nobody waits for it."""
        self._marker.touch()  # a worker that sees it has the same store
        try:
            yield
        finally:
            self._ended = True
            self._marker.unlink(missing_ok=True)
            with suppress(Exception):  # who cannot be told does nothing any more, or ends at its time limit
                self._connection.client.run(end_run, self._run)

    def do(self, work: Work) -> Done:
        """Have a worker do a job; where it is lost on the way, another.

        Raises:
            WorkerFailed: the job did not come back.
            OptimError[cluster-unfit]: nobody can do it.
            OptimError[cluster-lost]: the cluster is gone.
            CancelledError: the run has ended.
        """
        began, order = time.monotonic(), self._order(work)
        sole, error, carrying_s = "", None, 0.0
        lost: LostError | None = None
        for _ in range(_MOST_TRIES):
            if self._ended:
                raise CancelledError
            try:
                reply = self._ask(order, sole)
                sole = ""
                carries = time.monotonic()
                if reply.state is WorkState.LACKS_FILES:
                    sole = reply.worker if self._send(order, reply) else ""
                    carrying_s += time.monotonic() - carries
                    continue
                if reply.state is WorkState.UNFIT:
                    error = error_of(reply.error) if reply.error else None
                    self._pool.leave_out(reply.worker, reply.reason)
                    continue
                self._fetch(reply)
                carrying_s += time.monotonic() - carries
            except LostError as gone:
                sole, lost = "", gone
                self._connection.restore(self._anybody)
                continue
            waited_s = max(0.0, time.monotonic() - began - reply.worked_s)
            stalled_s = waited_s - carrying_s
            done = replace(self._received(reply), waited_s=waited_s)
            return replace(done, stalled_s=stalled_s) if stalled_s > _STALLED_FROM_S else done
        raise error or (self._connection.lost(f"{lost}, and so on") if lost else self._pool.none_left())

    def _order(self, work: Work) -> Order:
        root = self._root
        request = outgoing(json.loads(json.dumps(work.request)), root)
        named = list(dict.fromkeys(store_names(request)))
        there = [name for name in named if (root / name).exists()]
        travels = [] if self._here else dict.fromkeys(files.with_parts(root, there))
        needed = tuple(files.file_at(root, name) for name in travels)
        if self._exchange is not None:
            self._exchange.offer(needed, root)
        makes = tuple(name for name in named if name not in there)
        marker = self._marker.relative_to(root).as_posix()
        return Order(replace(work, request=request), needed, makes, self._run, self._needs.core, marker, self._url)

    def _ask(self, order: Order, sole: str) -> Reply:
        """Hand an order out, and wait for the reply.

        Args:
            order: what is to be done.
            sole: the only worker that may do it; empty: any that can.

        Raises:
            LostError: who had it is gone.
        """
        able = self._pool.timing if order.work.timed else self._pool.fit
        addresses = [sole] if sole else [one.address for one in able]
        if not addresses:
            if self._pool.is_exhausted:
                raise self._pool.none_left()
            raise LostError("no worker is left")
        text = json.dumps(to_wire(order))
        try:
            future = self._connection.client.submit(
                perform,
                text,
                key=f"optim-{order.work.module.rpartition('.')[2]}-{uuid.uuid4().hex}",
                pure=False,
                workers=addresses,
                allow_other_workers=False,
                resources=self._needs.clocks if order.work.timed else None,
            )
        except Exception as error:  # dask's own, of a client that closed while this process did something else
            raise LostError(describe_exception(error)) from error
        return from_wire(Reply, json.loads(self._waited(future, set(addresses))))

    def _waited(self, future: Any, addresses: set[str]) -> str:
        import distributed

        while True:
            try:
                text: str = future.result(timeout=_LOOK_S)
            except TimeoutError:
                if self._ended or not self._is_any_there(addresses):
                    with suppress(Exception):  # of a scheduler that is gone
                        future.cancel()
                    raise (CancelledError if self._ended else LostError)("its worker is gone") from None
            except CancelledError as error:
                raise LostError(str(error)) from error
            except distributed.KilledWorker as killed:
                lost = f"its worker was lost {killed.allowed_failures + 1} times"
                raise WorkerFailed(lost, "crashed") from killed
            else:
                return text

    def _is_any_there(self, addresses: set[str]) -> bool:
        try:
            self._pool.refresh()
        except LostError:
            return False
        return bool(addresses & {one.address for one in self._pool.fit})

    def _anybody(self) -> bool:
        self._pool.refresh()
        if self._pool.is_exhausted:
            raise self._pool.none_left()
        return bool(self._pool.timing)

    def _send(self, order: Order, reply: Reply) -> bool:
        """Bring a worker the files that it lacks; False where it has no room, and is left out."""
        try:
            for file in order.files:
                if file.name in reply.lacks:
                    self.carrier.send(file, reply.worker)
        except OSError as error:
            if not is_disk_full(error.errno):  # a file of this machine's store that is gone
                raise
            self._pool.leave_out(reply.worker, disk_error(error, "there is no room in its cache").what)
            return False
        return True

    def _fetch(self, reply: Reply) -> None:
        for file in reply.made:
            if self._exchange is None or files.has(self._root, file) or not self._exchange.fetch(file, self._root):
                self.carrier.fetch(file, reply.worker)

    def _received(self, reply: Reply) -> Done:
        """The answer with this machine's paths.

        Raises:
            WorkerFailed: the job's failure.
        """
        if reply.failure is not None:
            raise from_wire(type(reply.failure), incoming(to_wire(reply.failure), self._root)).raised()
        assert reply.done is not None
        done = reply.done
        return replace(done, answer=incoming(done.answer, self._root), events=incoming(done.events, self._root))


@contextmanager
def fleet_of(request: WorkplaceRequest) -> Iterator[Fleet]:
    """The workers that can do a run's jobs, within :meth:`Fleet.working`.

    Raises:
        OptimError[cluster-unfit]: no worker can do them.
        OptimError[bad-store-url]: files cannot be exchanged there.
        OptimError: those of :func:`optim_fleet.cluster.connect.client_of`.
    """
    where, needs = request.where, needs_of(request)
    if request.store_url:
        Exchange(request.store_url).require_usable()
    request.say(f"connecting to {where}")
    with client_of(where, needs.clocks) as client:
        connection = Connection(client, where, request.say)
        pool = Pool(lambda: connection.client, where, needs, request.say)
        pool.settle()
        fleet = Fleet(connection, pool, request.store, needs, request.store_url, here=is_local(where))
        timing = pool.timing
        if not timing:  # the last one has just left
            raise pool.none_left()
        fleet.seen = partial(seen_by, timing[0].worker)
        try:
            yield fleet
        finally:
            connection.close()
