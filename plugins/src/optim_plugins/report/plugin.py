"""The plugin ``report``: what it offers. Importing this imports none of it."""

from __future__ import annotations

from collections.abc import Sequence

from optim import hookimpl

OPTIM_HOOK_API = 1


@hookimpl
def optim_renderers() -> Sequence[str]:
    """The class that makes a page, a model card and plots of a report."""
    return ("optim_plugins.report.renderer:PageRenderer",)
