"""The plugin ``prepost``: what it offers."""

from __future__ import annotations

from collections.abc import Sequence

from optim import Backend, Command, Pass, Target, hookimpl
from optim_prepost.append import Append
from optim_prepost.web.backend import OrtWebBackend
from optim_prepost.web.targets import WEB

OPTIM_HOOK_API = 1


@hookimpl
def optim_targets() -> Sequence[Target]:
    """The browser."""
    return (WEB,)


@hookimpl
def optim_backends() -> Sequence[type[Backend]]:
    """onnxruntime-web."""
    return (OrtWebBackend,)


@hookimpl
def optim_post_process(target: Target) -> Sequence[type[Pass]]:
    """Steps around the model, for every target."""
    return (Append,)


@hookimpl
def optim_commands() -> Sequence[Command]:
    """``optim web``."""
    return (Command("optim_prepost.web.commands:web", "Show a model for target web in a browser."),)
