"""From an address to a file or a folder on this machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from optim._engine.sources.optimum_folder import graph_of
from optim._engine.sources.remote.address import is_address
from optim.errors import disk_error


def fetched(spec: str, say: Callable[[str], None]) -> Path:
    """What an address leads to, on this machine; of a path that is none the graph, where it is a folder of optimum.

    Args:
        spec: what the user names.
        say: told what is downloaded.

    Raises:
        OptimError[bad-address]: it can be no address.
        OptimError[address-offline]: it is not here yet, and the network is not, or must not be used.
        OptimError[address-not-found]: there is nothing, or nothing that this user may have.
        OptimError[hub-missing]: huggingface_hub is not installed.
        OptimError[external-data-outside]: the graph refers to files outside of its folder.
        OptimError[which-graph]: a folder of optimum has several.
    """
    if not is_address(spec):
        return graph_of(Path(spec))
    try:
        if spec.startswith("hf://"):
            from optim._engine.sources.remote.hub import from_hub

            return from_hub(spec, say)
        from optim._engine.sources.remote.url import from_url

        return from_url(spec, say)
    except OSError as error:
        raise disk_error(error, f"the files of {spec} could not be stored") from error


def quiet(text: str) -> None:
    """Say nothing of what is going on."""
