"""The plugin ``ort``: what it offers. A new pass is one file beside this one, and one line here."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

from optim import Backend, Pass, Target, hookimpl
from optim_plugins.ort.backend import OrtBackend
from optim_plugins.ort.tune_session import TuneSession

OPTIM_HOOK_API = 1


def _runtime_missing() -> str | None:
    return None if importlib.util.find_spec("onnxruntime") else "onnxruntime is not installed (optim-core[cpu])"


CPU = Target(name="cpu", backend="ort", provider="CPUExecutionProvider", device="CPU", probe=_runtime_missing)


@hookimpl
def optim_targets() -> Sequence[Target]:
    """The processor."""
    return (CPU,)


@hookimpl
def optim_backends() -> Sequence[type[Backend]]:
    """ONNX Runtime."""
    return (OrtBackend,)


@hookimpl
def optim_tune(target: Target) -> Sequence[type[Pass]]:
    """How the runtime is set."""
    return (TuneSession,) if target.backend == "ort" else ()
