"""Names that a public package hands on from its files, each imported when it is first asked for.

A package lists them twice: as imports for type checkers and editors, which so refuse a misspelt name, and as the table
that Python reads::

    if TYPE_CHECKING:
        from optim.jobs.process import WorkerFailed as WorkerFailed
    else:
        __getattr__, __dir__, __all__ = hand_on(__name__, {"process": ["WorkerFailed"]})

``import optim.onnx`` so imports no onnx. No name is that of a file: an imported file would take its place.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def hand_on(
    package: str, names: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """The module functions ``__getattr__`` and ``__dir__`` of a package, and its ``__all__``.

    Args:
        package: its ``__name__``.
        names: by the module inside the package that has them.
    """
    home_of = {name: f"{package}.{module}" for module, here in names.items() for name in here}
    public = sorted(home_of)

    def __getattr__(name: str) -> Any:  # noqa: N807 - it is called so in the package
        if name not in home_of:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        return getattr(importlib.import_module(home_of[name]), name)

    def __dir__() -> list[str]:  # noqa: N807 - as above
        return public

    return __getattr__, __dir__, public
