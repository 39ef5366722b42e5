"""Origins of models: addresses such as ``hf://ORG/NAME``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar


class Origin(ABC):
    """Brings models to this machine. A plugin offers it by ``optim_origins``; it is made without arguments.

    Attributes:
        name: text before ``://`` in the addresses, in lower case.
    """

    name: ClassVar[str]

    @abstractmethod
    def fetch(self, address: str, say: Callable[[str], None]) -> Path:
        """Downloads the model at an address, unless this machine has it already.

        Args:
            address: address, as the user wrote it.
            say: tells the user what is downloaded.

        Returns:
            An ``.onnx`` file with its weights beside it, or the folder of a source.

        Raises:
            OptimError: the address is wrong, or the user may not have the model.
            OSError: the disk refuses a file.
        """
