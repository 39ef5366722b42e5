"""What import paths name, and what importing a module brings along, asked of a process that has nothing yet."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from functools import cache

from optim.engine.testing import HEAVY

_TIMEOUT_S = 120.0
_SCRIPT = """
import importlib, sys
*heavy, module = sys.argv[1:]
before = set(sys.modules)
importlib.import_module(module)
print("loaded:", *(name for name in heavy if name in sys.modules and name not in before))
"""


@cache
def imports_of(module: str) -> list[str]:
    """The heavy libraries that importing ``module`` loads; a module with several classes is asked once.

    Raises:
        subprocess.CalledProcessError: it cannot be imported there.
    """
    path = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, *HEAVY, module],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
        timeout=_TIMEOUT_S,
    )
    return done.stdout.splitlines()[-1].split()[1:]


def imported(path: str) -> object:
    """What ``package.module:name`` names; None where the module has no such name."""
    module, _, name = path.partition(":")
    assert re.fullmatch(r"[\w.]+:\w+", path), f"an interface names 'package.module:function', not {path!r}"
    return getattr(importlib.import_module(module), name, None)
