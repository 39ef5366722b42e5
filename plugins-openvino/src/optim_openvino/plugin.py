"""The plugin ``openvino``: what it offers."""

from __future__ import annotations

from collections.abc import Sequence

from optim import Backend, Target, hookimpl
from optim_openvino.runtime.backend import OpenVinoBackend
from optim_openvino.runtime.targets import TARGET

OPTIM_HOOK_API = 1


@hookimpl
def optim_targets() -> Sequence[Target]:
    """OpenVINO on the processor; on another device by a setting."""
    return (TARGET,)


@hookimpl
def optim_backends() -> Sequence[type[Backend]]:
    """OpenVINO."""
    return (OpenVinoBackend,)
