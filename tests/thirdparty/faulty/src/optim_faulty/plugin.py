"""What this vendor offers."""

from __future__ import annotations

from optim import hookimpl
from optim_faulty.backend import TARGET, FaultyBackend
from optim_faulty.passes import Shrink

OPTIM_HOOK_API = 1


@hookimpl
def optim_targets():
    """The device."""
    return (TARGET,)


@hookimpl
def optim_backends():
    """Its runtime."""
    return (FaultyBackend,)


@hookimpl
def optim_fuse(target):
    """Its pass."""
    return (Shrink,) if target.backend == "faulty" else ()
