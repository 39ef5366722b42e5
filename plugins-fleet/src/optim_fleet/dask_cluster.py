"""Clusters of dask, as ``--cluster`` names them."""

from __future__ import annotations

from contextlib import AbstractContextManager

from optim.workplace import Cluster, Workplace, WorkplaceRequest


class DaskCluster(Cluster):
    """``local:N``, an address of a scheduler, or ``package.module:function``; says what is wrong with another text."""

    name = "dask"

    def check(self, where: str) -> None:
        """Refuse an address where nobody listens, before dask is imported."""
        from optim_fleet.cluster.answering import require_listener

        require_listener(where)

    def connect(self, request: WorkplaceRequest) -> AbstractContextManager[Workplace]:
        """The workers that can do the run's jobs."""
        from optim_fleet.cluster.fleet import fleet_of

        return fleet_of(request)
