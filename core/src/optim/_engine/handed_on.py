"""Names that a public package hands on from its files, each imported when it is first asked for.

A package lists them once, as imports that type checkers and editors follow, and Python does not::

    if TYPE_CHECKING:
        from optim.jobs.process import WorkerFailed as WorkerFailed
    else:
        __getattr__, __dir__, __all__ = hand_on(__name__)

``import optim.onnx`` so imports no onnx. No name is that of a file: an imported file would take its place. The imports
are read from the compiled package, which is there in a zip and without any source too.
"""

from __future__ import annotations

import dis
import importlib
import sys
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any


def hand_on(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """The module functions ``__getattr__`` and ``__dir__`` of a package, and its ``__all__``.

    Args:
        package: its ``__name__``. The caller's imports for type checkers name what it hands on.
    """
    home_of = dict(_imports_for_type_checkers(sys._getframe(1).f_code))
    public = sorted(home_of)

    def __getattr__(name: str) -> Any:  # noqa: N807 - it is called so in the package
        if name not in home_of:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        return getattr(importlib.import_module(home_of[name]), name)

    def __dir__() -> list[str]:  # noqa: N807 - as above
        return public

    return __getattr__, __dir__, public


def _imports_for_type_checkers(package: CodeType) -> Iterator[tuple[str, str]]:
    """The names that the code imports between the test of TYPE_CHECKING and the import of this function."""
    tested, home = False, ""
    for instruction in dis.get_instructions(package):
        if instruction.opname == "LOAD_NAME" and instruction.argval == "TYPE_CHECKING":
            tested = True
        elif instruction.opname == "IMPORT_NAME":
            home = instruction.argval
        elif instruction.opname == "IMPORT_FROM" and tested and home != __name__:
            yield instruction.argval, home
