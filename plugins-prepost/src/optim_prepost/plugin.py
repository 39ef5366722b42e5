"""The plugin ``prepost``: what it offers."""

from __future__ import annotations

from collections.abc import Sequence

from optim import Pass, Target, hookimpl
from optim_prepost.append import Append

OPTIM_HOOK_API = 1


@hookimpl
def optim_post_process(target: Target) -> Sequence[type[Pass]]:
    """Steps around the model, for every target."""
    del target
    return (Append,)
