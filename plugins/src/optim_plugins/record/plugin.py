"""The plugin ``record``: what it offers. Importing this imports no torch and no onnxruntime."""

from __future__ import annotations

from collections.abc import Sequence

from optim import hookimpl

OPTIM_HOOK_API = 1


@hookimpl
def optim_recorders() -> Sequence[str]:
    """What records a pipeline, for ``optim.record``."""
    return ("optim_plugins.record.recorder:PipeRecorder",)
