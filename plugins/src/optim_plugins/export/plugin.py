"""The plugin ``export``: what it offers. The loaders and exporters that it runs are those of other plugins."""

from __future__ import annotations

from collections.abc import Sequence

from optim import Command, hookimpl
from optim.origin import Origin
from optim_plugins.export.remote.origins import Http, Https, Hub

OPTIM_HOOK_API = 1


@hookimpl
def optim_pipelines() -> Sequence[str]:
    """What turns sources into verified graphs."""
    return ("optim_plugins.export.export_pipeline:VerifiedExport",)


@hookimpl
def optim_origins() -> Sequence[type[Origin]]:
    """The Hugging Face hub, and web servers."""
    return (Hub, Http, Https)


@hookimpl
def optim_commands() -> Sequence[Command]:
    """``optim export``."""
    return (Command("optim_plugins.export.command:export", "Export a torch module or Hugging Face model to ONNX."),)
