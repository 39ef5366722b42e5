"""Whether somebody answers at an address, in a time that is bounded whatever is there.

Imports the standard library and errors only: an address where nobody listens is named before dask and plugins are
imported, which takes seconds, and tens of them on a busy machine.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import TypeVar

from optim.errors import ExitStatus, OptimError, describe_exception

LISTEN_S = 5.0
"""For somebody to take a connection, so that an address where nobody does is named within 10 s. A line around the world
takes 0.3 s for it, and 1 or 3 s more where packets are lost."""

LOCAL = ("127.0.0.1", "localhost", "[::1]")
"""This machine, as an address says it."""

T = TypeVar("T")


def require_listener(cluster: str) -> None:
    """Refuse an address where nobody listens; what else may stand behind ``--cluster`` is left alone.

    Raises:
        OptimError[cluster-unreachable]: nobody takes a connection there.
    """
    protocol, _, rest = cluster.partition("://")
    host, _, port = rest.rpartition(":")
    if not port.isdecimal() or not (protocol == "tls" or (protocol == "tcp" and host in LOCAL)):
        return  # dask, or who is asked next, says what is wrong with it
    try:
        within(LISTEN_S, partial(socket.create_connection, (host.strip("[]"), int(port)), LISTEN_S)).close()
    except (OSError, OverflowError) as error:
        raise unreachable(cluster, error) from error


def unreachable(address: str, error: Exception) -> OptimError:
    """The error for an address where no scheduler answers."""
    return OptimError(
        "cluster-unreachable",
        f"no scheduler answers at {address}",
        describe_exception(error),
        "start one: dask scheduler; then a worker on each machine: dask worker ADDRESS --nthreads 1",
        status=ExitStatus.TARGET_UNAVAILABLE,
    )


def within(seconds: float, make: Callable[[], T], drop: Callable[[T], object] = lambda made: None) -> T:
    """What a function returns, where it does so in time; it goes on in a thread where it does not.

    Args:
        seconds: that it has, whatever it waits for.
        make: may hang: looking up a name has no time limit, nor has the first word of a stranger.
        drop: takes what comes too late.

    Raises:
        TimeoutError: it did not return in time.
    """
    made: Future[T] = Future()

    def run() -> None:
        try:
            made.set_result(make())
        except BaseException as error:
            made.set_exception(error)

    threading.Thread(target=run, name="optim-connecting", daemon=True).start()
    try:
        return made.result(timeout=seconds)
    except TimeoutError as error:
        if made.done() and made.exception() is error:  # its own
            raise
        made.add_done_callback(lambda late: late.exception() or drop(late.result()))
        raise TimeoutError(f"nothing was said within {seconds:g} s") from error
