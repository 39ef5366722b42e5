"""Which plugin's workplace a text behind ``--cluster`` names."""

from __future__ import annotations

from optim._engine.plugins.registry import Registry
from optim.errors import OptimError
from optim.hooks import RESERVED_NAMES
from optim.workplace import Cluster


def find_cluster(registry: Registry, where: str) -> Cluster:
    """The cluster that takes what stands before the colon, else the one that takes whatever no other does.

    Raises:
        OptimError[plugin-missing]: nobody takes it, and the plugin of clusters of dask is not installed.
        OptimError[plugin-failed]: the same, and it cannot be used.
        OptimError[bad-cluster]: nobody takes it.
    """
    offered: list[type[Cluster]] = [offer.value for offer in registry.offered("workplace").values()]
    scheme = where.partition(":")[0]
    for one in (*(one for one in offered if scheme in one.schemes), *(one for one in offered if not one.schemes)):
        return one()
    for owner in RESERVED_NAMES["workplace"].values():
        registry.require_plugin(owner, f"--cluster {where} cannot be used")
    raise OptimError.usage(
        "bad-cluster",
        f"--cluster {where} names no cluster",
        "no plugin that can be used takes it",
        "optim plugins doctor",
    )
