"""Functions that a user names as ``package.module:function``. optim searches the working folder first.

Only the named module is searched there: a ``numpy.py`` beside a model is not numpy. The modules that it imports come
from installed packages first, and from the working folder last.
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
    """Imports and returns the function that ``package.module:function`` names. Errors of the import pass through.

    Args:
        spec: the module, a colon, and a name in the module.
    """
    module, _, name = spec.partition(":")
    return getattr(import_here(module), name)


def import_here(name: str) -> ModuleType:
    """Imports a module of the working folder, or else an installed one.

    The folder stays at the end of ``sys.path``, because the module may import more of it later.
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
