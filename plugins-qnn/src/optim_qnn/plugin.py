"""The plugin ``qnn``: what it offers."""

from __future__ import annotations

from collections.abc import Sequence

from optim import Backend, Target, hookimpl
from optim_qnn.backend import OfflineBackend, QnnBackend
from optim_qnn.targets import make_targets

OPTIM_HOOK_API = 1

_BACKENDS = (QnnBackend, OfflineBackend)


@hookimpl
def optim_targets() -> Sequence[Target]:
    """HTP, and preparing for it where QNN is missing."""
    return make_targets()


@hookimpl
def optim_backends() -> Sequence[type[Backend]]:
    """HTP through onnxruntime-qnn, and the CPU in its place."""
    return _BACKENDS
