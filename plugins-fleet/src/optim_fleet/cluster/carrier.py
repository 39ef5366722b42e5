"""Files between a run and its workers, by the engine itself: in pieces, each file once to each worker."""

from __future__ import annotations

import threading
from collections import defaultdict
from pathlib import Path

from optim.errors import disk_error
from optim_fleet.cluster import files
from optim_fleet.cluster.connection import Connection, LostError
from optim_fleet.cluster.order import File


class Carrier:
    """Carries the files of one run.

    Args:
        connection: to the cluster.
        root: of this machine's store.
        run: whose files they are.
    """

    def __init__(self, connection: Connection, root: Path, run: str) -> None:
        self._connection = connection
        self._root = root
        self._run = run
        self._guard = threading.Lock()
        self._under_way: defaultdict[tuple[str, str], threading.Lock] = defaultdict(threading.Lock)

    def send(self, file: File, worker: str) -> bool:
        """Bring a worker a file, unless it has come there meanwhile; returns whether it was sent.

        Raises:
            LostError: the worker is gone.
            OSError: its disk is full.
        """
        with self._alone(file, worker):
            if self._connection.on(worker, files.is_there, file.name, file.size_bytes, file.digest):
                return False
            with (self._root / file.name).open("rb") as stream:
                for offset in range(0, max(1, file.size_bytes), files.PIECE_BYTES):
                    piece = stream.read(files.PIECE_BYTES)
                    self._connection.on(worker, files.take, file.name, file.digest, self._run, offset, piece)
            self._connection.on(worker, files.put, file.name, file.size_bytes, file.digest, self._run)
        return True

    def fetch(self, file: File, worker: str) -> None:
        """Bring a worker's file into this machine's store, unless it is there.

        Raises:
            LostError: the worker is gone.
            OptimError[disk-full]: there is no room here.
        """
        with self._alone(file, ""):
            if files.has(self._root, file):
                return
            part = files.part_of(self._root, file, self._run)
            try:
                with part.open("wb") as stream:
                    for offset in range(0, file.size_bytes, files.PIECE_BYTES):
                        stream.write(self._connection.on(worker, files.give, file.name, offset, files.PIECE_BYTES))
                files.placed(part, self._root, file)
            except OSError as error:
                raise disk_error(error, f"cannot write to the cache {self._root}") from error
            except ValueError as error:  # it is not what the worker said it is
                raise LostError(str(error)) from error
            finally:
                part.unlink(missing_ok=True)

    def _alone(self, file: File, worker: str) -> threading.Lock:
        with self._guard:
            return self._under_way[worker, file.name]
