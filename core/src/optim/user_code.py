"""Functions that a user names as ``package.module:function``, found in the working folder and only then elsewhere.

Nothing else is ever found there: a ``numpy.py`` beside a model is not numpy. Workers start without the working folder
on ``sys.path``; the module that is named comes from there, and what it imports beside it after everything installed.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

FUNCTION_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
"""Matches ``package.module:function``."""


def find_function(spec: str) -> Any:
    """Returns what ``package.module:function`` names; whatever importing it raises is raised.

    Args:
        spec: with the module before the colon, and a name in it behind.
    """
    module, _, name = spec.partition(":")
    return getattr(import_here(module), name)


def import_here(name: str) -> ModuleType:
    """A module of the working folder where it is there, else an installed one.

    The folder stays at the end of ``sys.path``: the module may import more of it when it is called.
    """
    here, top = str(Path.cwd()), name.partition(".")[0]
    if here not in sys.path:
        sys.path.append(here)
    known = sys.modules.get(top)
    found = PathFinder.find_spec(top, [here])
    if known is None and found is not None and found.loader is not None:
        module = importlib.util.module_from_spec(found)
        sys.modules[top] = module
        try:
            found.loader.exec_module(module)
        except BaseException:
            del sys.modules[top]
            raise
    return importlib.import_module(name)
