"""The addresses that this plugin brings models from. Nothing heavy is imported before an address is fetched."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from optim.origin import Origin


class Hub(Origin):
    """Repositories of the Hugging Face hub: ``hf://ORG/NAME[@REVISION][/FILE]``."""

    name = "hf"

    def fetch(self, address: str, say: Callable[[str], None]) -> Path:
        """A file of a repository with what it refers to, or the folder of a source.

        Raises:
            OptimError[bad-address]: it can be no address.
            OptimError[address-offline]: it is not here yet, and the network is not, or must not be used.
            OptimError[address-not-found]: there is nothing, or nothing that this user may have.
            OptimError[hub-missing]: huggingface_hub is not installed.
            OptimError[external-data-outside]: the graph refers to files outside of its folder.
        """
        from optim_plugins.export.remote.hub import from_hub

        return from_hub(address, say)


class Https(Origin):
    """Files of web servers: an ``.onnx`` file, and the weights beside it."""

    name = "https"

    def fetch(self, address: str, say: Callable[[str], None]) -> Path:
        """The file that a URL leads to, with the files that it refers to.

        Raises:
            OptimError: as :meth:`Hub.fetch`, apart from hub-missing.
        """
        from optim_plugins.export.remote.url import from_url

        return from_url(address, say)


class Http(Https):
    """The same without encryption."""

    name = "http"
