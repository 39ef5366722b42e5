"""The plugin ``adapters``: what it offers."""

from __future__ import annotations

from collections.abc import Sequence

from optim import Command, Pass, Target, hookimpl
from optim_plugins.adapters.extract.extract import Extract, ExtractPacked

OPTIM_HOOK_API = 1


@hookimpl
def optim_fuse(target: Target) -> Sequence[type[Pass]]:
    """Taking adapters out, before anything is fused."""
    return () if target.runs_sources else (Extract, ExtractPacked)


@hookimpl
def optim_adapter_openers() -> Sequence[str]:
    """The class that opens models with adapters."""
    return ("optim_plugins.adapters.opener:AdaptedOpener",)


@hookimpl
def optim_commands() -> Sequence[Command]:
    """Files of adapters."""
    return (Command("optim_plugins.adapters.commands.command:adapters", "Extract, convert, show and check adapters."),)
