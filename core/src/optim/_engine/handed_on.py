"""Names that a public package hands on from its files, each imported when it is first asked for.

A package lists them once, as imports that type checkers and editors follow, and Python does not::

    if TYPE_CHECKING:
        from optim.jobs.process import WorkerFailed as WorkerFailed
    else:
        __getattr__, __dir__, __all__ = hand_on(__name__, __file__)

``import optim.onnx`` so imports no onnx. No name is that of a file: an imported file would take its place.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from typing import Any

_IMPORT = re.compile(r"^    from ([\w.]+) import (\w+) as \2$", re.MULTILINE)


def hand_on(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """The module functions ``__getattr__`` and ``__dir__`` of a package, and its ``__all__``.

    Args:
        package: its ``__name__``.
        file: its ``__file__``, whose imports for type checkers name what it hands on.
    """
    with open(file, encoding="utf-8") as text:  # pathlib takes 3 ms of "import optim"
        home_of = {name: home for home, name in _IMPORT.findall(text.read())}
    public = sorted(home_of)

    def __getattr__(name: str) -> Any:  # noqa: N807 - it is called so in the package
        if name not in home_of:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        return getattr(importlib.import_module(home_of[name]), name)

    def __dir__() -> list[str]:  # noqa: N807 - as above
        return public

    return __getattr__, __dir__, public
