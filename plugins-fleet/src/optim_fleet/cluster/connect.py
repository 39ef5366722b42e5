"""From what stands behind ``--cluster`` to a client of dask."""

from __future__ import annotations

import importlib
import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

from optim.errors import OptimError, describe_exception
from optim.jobs import usable_processors
from optim_fleet.cluster.answering import LOCAL, require_listener, unreachable, within

CONNECT_S = 30.0
"""For a scheduler to answer where somebody listens, as dask has it: one on a busy machine takes seconds. Dask itself
waits without end for the first word of what is no scheduler."""

_ADDRESS = re.compile(r"(tcp|tls)://.+:[0-9]+")
_FUNCTION = re.compile(r"[^:/]+:[^/]+")


@contextmanager
def client_of(cluster: str, resources: Mapping[str, float] | None = None) -> Iterator[Any]:
    """A client of dask.

    Args:
        cluster: ``local:N``, an address of a scheduler, or ``package.module:function``.
        resources: of each worker, where they are started here.

    Raises:
        OptimError[bad-cluster]: the text names none, or its workers do not start.
        OptimError[cluster-unreachable]: nobody answers at the address.
        OptimError[cluster-unencrypted]: the address is on another machine, and nothing is encrypted.
    """
    _require_sound(cluster)
    require_listener(cluster)  # before dask is imported, which takes a second
    import distributed

    if is_local(cluster):
        with _started(cluster, resources or {}) as local, distributed.Client(local) as client:
            yield client
    elif "://" in cluster:
        _require_private(cluster)
        with connected(cluster) as client:
            yield client
    else:
        with _made_by(cluster) as client:
            yield client


def _require_sound(cluster: str) -> None:
    """Refuse a text that names no cluster."""
    if is_local(cluster):
        local_count(cluster)
    elif not re.fullmatch(_ADDRESS if "://" in cluster else _FUNCTION, cluster):
        raise _bad(cluster)


def is_local(cluster: str) -> bool:
    """Whether workers are started here."""
    return cluster.partition(":")[0] == "local"


def local_count(cluster: str) -> int:
    """How many workers ``local:N`` asks for; ``local`` alone: half as many as there are processors.

    Raises:
        OptimError[bad-cluster]: N is no number, or none.
    """
    _, _, text = cluster.partition(":")
    if not text:
        return max(1, usable_processors() // 2)
    if not text.isdecimal() or int(text) < 1:
        raise _bad(cluster)
    return int(text)


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """A client of the scheduler at an address.

    Raises:
        OptimError[cluster-unreachable]: nobody answers there.
    """
    require_listener(address)
    import distributed

    def connect() -> Any:
        return distributed.Client(address, timeout=CONNECT_S)

    try:
        client = within(CONNECT_S, connect, lambda late: late.close())
    except (OSError, ValueError) as error:
        raise unreachable(address, error) from error
    with closing(client):  # as its own context it could be left in the thread only that entered it
        yield client


def _started(cluster: str, resources: Mapping[str, float]) -> Any:
    """A cluster of so many workers on this machine, a process each."""
    import dask
    import distributed

    count = local_count(cluster)
    try:
        with dask.config.set({"distributed.worker.profile.enabled": False}):  # it looks at workers 100 times a second
            return distributed.LocalCluster(
                n_workers=count,
                threads_per_worker=1,
                dashboard_address="127.0.0.1:0",  # another program may have the usual port
                scheduler_kwargs={"dashboard": False},
                silence_logs=logging.CRITICAL,
                resources=dict(resources),
            )
    except RuntimeError as error:
        raise OptimError.usage(
            "bad-cluster",
            f"the workers of {cluster} did not start",
            f"{describe_exception(error)}; each of them imports the script that is running, and runs what it calls",
            'call it below if __name__ == "__main__":, or start a scheduler and workers and name the address',
        ) from error


@contextmanager
def _made_by(cluster: str) -> Iterator[Any]:
    """The client of a user's function, which returns a client or a cluster of dask."""
    import distributed

    module, _, name = cluster.partition(":")
    try:
        made = getattr(importlib.import_module(module), name)()
    except Exception as error:  # code of the user's
        raise _gives_none(cluster, describe_exception(error)) from error
    if not hasattr(made, "__exit__"):
        raise _gives_none(cluster, f"it returned {type(made).__name__}")
    if isinstance(made, distributed.Client):
        with made:
            yield made
        return
    with made, distributed.Client(made) as client:
        yield client


def _gives_none(cluster: str, cause: str) -> OptimError:
    return OptimError.usage(
        "bad-cluster",
        f"{cluster} gives no cluster",
        cause,
        "name a function without arguments that returns a Client or a cluster of dask",
    )


def _bad(cluster: str) -> OptimError:
    return OptimError.usage(
        "bad-cluster",
        f"--cluster {cluster} names no cluster",
        "it is not one of local, local:N, tcp://HOST:PORT, tls://HOST:PORT and package.module:function",
        "--cluster local:2",
    )


def _require_private(address: str) -> None:
    """What runs on a cluster is code: who can write to an open connection can run anything."""
    import distributed

    protocol, _, rest = address.partition("://")
    host = rest.rpartition(":")[0] or rest
    if protocol == "tls":
        _require_certificates(address)
        return
    if host in LOCAL:
        return
    if protocol == "tcp" and distributed.Security().require_encryption:
        return  # dask itself refuses it
    raise OptimError.usage(
        "cluster-unencrypted",
        f"{address} is another machine, and the connection is not encrypted",
        "every user who can write to it can run code on every machine of the cluster",
        "tls://HOST:PORT with certificates, as https://distributed.dask.org/en/stable/tls.html says; or a tunnel to a "
        "port of this machine",
    )


def _require_certificates(address: str) -> None:
    import distributed

    try:
        problem = (
            "" if distributed.Security().get_connection_args("client")["ssl_context"] else "dask has no certificate"
        )
    except OSError as error:  # of a file that is not there, or is none
        problem = describe_exception(error)
    if problem:
        raise OptimError.usage(
            "cluster-unencrypted",
            f"there are no certificates to connect to {address} with",
            problem,
            "name them in dask's settings, as https://distributed.dask.org/en/stable/tls.html says",
        )
