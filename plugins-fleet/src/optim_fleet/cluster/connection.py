"""The client of dask of one run: calls beside tasks, and what to do when the scheduler is gone."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from optim.errors import ExitStatus, OptimError, is_disk_full
from optim_fleet.cluster.connect import connected

_PATIENCE_S = 120.0
"""For a scheduler to come back: a machine starts again in less, and a cut of 30 s takes dask another 30 to see."""

_POLL_S = 0.5


class LostError(Exception):
    """Nobody is there any more who could do what was asked."""


class Connection:
    """The connection of one run.

    Args:
        client: of dask.
        cluster: as the user wrote it; an address can be connected to anew.
        say: told when the scheduler is gone.

    Attributes:
        client: of dask, which may be another one after :meth:`restore`.
        patience_s: for a scheduler to come back.
    """

    def __init__(self, client: Any, cluster: str, say: Callable[[str], None]) -> None:
        self.client = client
        self.patience_s = _PATIENCE_S
        self._cluster = cluster
        self._say = say
        self._guard = threading.Lock()
        self._own = ExitStack()

    def on(self, worker: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function on a worker, beside its tasks.

        Raises:
            LostError: the worker does not answer.
            OSError: its disk is full.
        """
        try:
            return self.client.run(function, *arguments, workers=[worker])[worker]
        except OSError as error:
            if is_disk_full(error.errno):
                raise
            raise LostError(str(error)) from error
        except Exception as error:  # dask's own, of a connection, of a worker or a scheduler that is gone
            raise LostError(str(error)) from error

    def restore(self, anybody: Callable[[], bool]) -> None:
        """Wait until there is a scheduler again, and somebody to do the work.

        Args:
            anybody: whether there is a worker that takes part; raises what dask raises where there is no scheduler.

        Raises:
            OptimError[cluster-lost]: that took too long.
        """
        deadline, told = time.monotonic() + self.patience_s, False
        with self._guard:
            while True:
                problem = self._problem(anybody)
                if not problem:
                    return
                if not told:
                    self._say(f"waiting for {self._cluster}: {problem}")
                    told = True
                if time.monotonic() > deadline:
                    raise self.lost(f"{problem}, for {self.patience_s:.0f} s")
                time.sleep(_POLL_S)

    def lost(self, problem: str) -> OptimError:
        """The error for when waiting and trying again did not help."""
        return OptimError(
            "cluster-lost",
            f"the cluster {self._cluster} was lost",
            problem,
            "start it again, and run the same command: what was found so far is kept",
            status=ExitStatus.TARGET_UNAVAILABLE,
        )

    def close(self) -> None:
        """Close what was connected anew."""
        self._own.close()

    def _problem(self, anybody: Callable[[], bool]) -> str:
        """What is missing; empty where nothing is."""
        try:
            if self.client.status == "closed":
                if "://" not in self._cluster:
                    return "its scheduler is gone"
                self.client = self._own.enter_context(connected(self._cluster))
            if anybody():
                return ""
        except OptimError as error:
            if error.reference != "cluster-unreachable":
                raise
            return "no scheduler answers"
        except Exception as error:  # dask's own, while it connects again
            return f"its scheduler does not answer ({type(error).__name__})"
        return "no worker that can take part is left"
