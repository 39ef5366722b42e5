"""What processes of optim's own put off, since it takes long and is seldom needed: modules, and collecting garbage.

onnx-ir imports sympy for arithmetic on symbolic dimensions. That is half of what a worker spends before it does a thing
(0.3 of 0.7 s of processor time, measured with onnx-ir 1.1 and sympy 1.14), and a run starts tens of workers. onnx
imports protobuf's JSON, for models written as text (0.02 s). Such a module is loaded when it is first used.

Imports make some hundred thousand objects and next to no garbage, yet the collector looks at all of them again and
again: 0.1 of 0.6 s of processor time.
"""

from __future__ import annotations

import gc
import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

_SELDOM = frozenset({"sympy", "onnx_ir._symbolic_shapes", "google.protobuf.json_format"})

_COLLECTED_AFTER = 200_000
"""New objects; twice as many save nothing more, and a process that goes on frees cycles somewhat later."""


class _Finder:
    """Finds the seldom modules as everything else is found, and puts off running them.

    It does not derive from ``importlib.abc.MetaPathFinder``, with which tempfile and random would be imported.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module's own place, with a loader that waits; None for every other module."""
        spec = PathFinder.find_spec(fullname, path, target) if fullname in _SELDOM else None
        if spec is not None and spec.loader is not None:
            spec.loader = importlib.util.LazyLoader(spec.loader)
        return spec


def put_off_what_is_seldom_needed() -> None:
    """For processes of optim's own alone: how a user's program imports is its own affair."""
    gc.set_threshold(_COLLECTED_AFTER)
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
