"""Where models come from: what a plugin offers behind an address such as ``hf://ORG/NAME``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar


class Origin(ABC):
    """Brings models to this machine, contributed by ``optim_origins``. Instantiated without arguments.

    Attributes:
        name: what stands before ``://`` in its addresses, in lower case.
    """

    name: ClassVar[str]

    @abstractmethod
    def fetch(self, address: str, say: Callable[[str], None]) -> Path:
        """Bring what an address leads to, unless it is here already.

        Args:
            address: as the user wrote it.
            say: told what is downloaded.

        Returns:
            An ``.onnx`` file with its weights beside it, or the folder of a source.

        Raises:
            OptimError: it is no address, or there is nothing that this user may have.
            OSError: the disk refuses it.
        """
