"""The plugin ``fleet``: what it offers."""

from __future__ import annotations

from collections.abc import Sequence

from optim import Command, hookimpl
from optim.workplace import Cluster
from optim_fleet.dask_cluster import DaskCluster

OPTIM_HOOK_API = 1


@hookimpl
def optim_workplaces() -> Sequence[type[Cluster]]:
    """Workers of dask."""
    return (DaskCluster,)


@hookimpl
def optim_commands() -> Sequence[Command]:
    """``optim batch``."""
    return (Command("optim_fleet.batch.command:batch", "Optimize many models, targets and budgets."),)
