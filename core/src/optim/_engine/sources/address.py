"""Addresses of models: what counts as one, and the plugin that brings what it leads to. Imports nothing heavy."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from optim._engine.sources.naming import graph_of
from optim.errors import OptimError, disk_error
from optim.hooks import RESERVED_NAMES

if TYPE_CHECKING:
    from optim.origin import Origin

_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]*)://.*", re.IGNORECASE | re.DOTALL)


def is_address(spec: str) -> bool:
    """Returns whether it is an address, and no path."""
    return _ADDRESS.fullmatch(spec) is not None


def fetched(spec: str, say: Callable[[str], None]) -> Path:
    """What an address leads to, on this machine; of a path that is none the graph, where it is a folder of optimum.

    Args:
        spec: what the user names.
        say: told what is downloaded.

    Raises:
        OptimError[plugin-missing]: no plugin brings it; says what to install.
        OptimError[plugin-failed]: the plugin that does cannot be used.
        OptimError[bad-address]: it can be no address.
        OptimError[which-graph]: a folder of optimum has several.
        OptimError: as :meth:`optim.origin.Origin.fetch`.
    """
    if not is_address(spec):
        return graph_of(Path(spec))
    origin = _find_origin(spec)
    try:
        return origin.fetch(spec, say)
    except OSError as error:
        raise disk_error(error, f"the files of {spec} could not be stored") from error


def quiet(text: str) -> None:
    """Say nothing of what is going on."""


def name_of(path: Path) -> str:
    """The name of a file or a folder; of a repository in huggingface_hub's cache its own, and not its commit."""
    repo = path.parent.parent.name
    cached = path.parent.name == "snapshots" and repo.startswith("models--")
    return repo.rpartition("--")[2] if cached else path.name


def _find_origin(spec: str) -> Origin:
    from optim._engine.plugins.registry import load_registry

    registry = load_registry()
    scheme = spec.partition("://")[0].lower()
    offered = registry.offered("origin")
    if scheme in offered:
        found: type[Origin] = offered[scheme].value
        return found()
    if owner := RESERVED_NAMES["origin"].get(scheme):
        registry.require_plugin(owner, f"{spec} cannot be downloaded")
    raise OptimError.usage(
        "bad-address",
        f"{spec} cannot be downloaded",
        f"no plugin brings models from {scheme}://" + (f"; there are {', '.join(offered)}" if offered else ""),
        "name a file or a folder of this machine",
    )
