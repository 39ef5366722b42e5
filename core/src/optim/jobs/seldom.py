"""Modules that libraries import at their start and seldom need: they are loaded when something of them is first used.

onnx-ir imports sympy for arithmetic on symbolic dimensions. That is half of what a worker spends before it does a thing
(0.3 of 0.7 s of processor time, measured with onnx-ir 1.1 and sympy 1.14), and a run starts tens of workers.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

_SELDOM = frozenset({"sympy", "onnx_ir._symbolic_shapes"})


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the seldom modules as everything else is found, and puts off running them."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module's own place, with a loader that waits; None for every other module."""
        spec = PathFinder.find_spec(fullname, path, target) if fullname in _SELDOM else None
        if spec is not None and spec.loader is not None:
            spec.loader = importlib.util.LazyLoader(spec.loader)
        return spec


def put_off_seldom_modules() -> None:
    """For processes of optim's own alone: how a user's program imports is its own affair."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
