"""What Volt offers."""

from __future__ import annotations

from optim import hookimpl
from optim_volt.backend import TARGET, VoltBackend
from optim_volt.compile_pass import Compile

OPTIM_HOOK_API = 1


@hookimpl
def optim_targets():
    """The device."""
    return (TARGET,)


@hookimpl
def optim_backends():
    """Its runtime."""
    return (VoltBackend,)


@hookimpl
def optim_post_process(target):
    """Compiling, at the end."""
    return (Compile,) if target.backend == "volt" else ()
