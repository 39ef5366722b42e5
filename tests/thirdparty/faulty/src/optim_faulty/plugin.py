"""What this vendor offers."""

from __future__ import annotations

from optim import hookimpl
from optim_faulty.backend import BATCHED, FIXED, LIMITED, REQUIRED, TARGET, FaultyBackend, FixedBackend, LimitedBackend
from optim_faulty.passes import Break, FixBatch, Shrink, ShrinkInTime, StoreBytes

OPTIM_HOOK_API = 1


@hookimpl
def optim_targets():
    """The devices."""
    return (TARGET, FIXED, BATCHED, LIMITED, REQUIRED)


@hookimpl
def optim_backends():
    """Their runtimes."""
    return (FaultyBackend, FixedBackend, LimitedBackend)


@hookimpl
def optim_fuse(target):
    """Its passes."""
    own = {"faulty": (Shrink,), "faulty-limited": (ShrinkInTime,), "faulty-fixed": (FixBatch, Shrink)}
    return (*own.get(target.backend, ()), *((Break,) if target.name == "faulty-required" else ()))


@hookimpl
def optim_quantize(target):
    """Its lossy pass."""
    return (StoreBytes,) if target.backend == "faulty" else ()
