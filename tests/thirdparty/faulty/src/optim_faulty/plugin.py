"""What this vendor offers."""

from __future__ import annotations

from optim import hookimpl
from optim_faulty.backend import BATCHED, FIXED, TARGET, FaultyBackend, FixedBackend
from optim_faulty.passes import FixBatch, Shrink, StoreBytes

OPTIM_HOOK_API = 1


@hookimpl
def optim_targets():
    """The devices."""
    return (TARGET, FIXED, BATCHED)


@hookimpl
def optim_backends():
    """Their runtimes."""
    return (FaultyBackend, FixedBackend)


@hookimpl
def optim_fuse(target):
    """Its passes."""
    return {"faulty": (Shrink,), "faulty-fixed": (FixBatch, Shrink)}.get(target.backend, ())


@hookimpl
def optim_quantize(target):
    """Its lossy pass."""
    return (StoreBytes,) if target.backend == "faulty" else ()
