"""The plugin ``adapters``: what it offers."""

from __future__ import annotations

from collections.abc import Sequence

from optim import Pass, Target, hookimpl
from optim.hooks import Command
from optim_plugins.adapters.extract.extract import Extract

OPTIM_HOOK_API = 1

_PROVIDERS = ("CPUExecutionProvider", "CUDAExecutionProvider")
"""Those whose sessions take weights with a run; OpenVINO reads a default of rank 0 as a scalar, QNN fixes shapes."""


@hookimpl
def optim_fuse(target: Target) -> Sequence[type[Pass]]:
    """Taking adapters out, before anything is fused."""
    return (Extract,) if target.provider in _PROVIDERS else ()


@hookimpl
def optim_commands() -> Sequence[Command]:
    """Files of adapters."""
    return (Command("optim_plugins.adapters.commands.command:adapters", "Take adapters out of a model, convert them."),)
