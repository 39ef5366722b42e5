"""A plugin's libraries in an environment of their own, where they cannot live beside ours, and work done in there.

Everything is imported when first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optim.isolation.client import run_isolated
    from optim.isolation.environments import Isolation, find_environment, read_requirements

__all__ = ["Isolation", "find_environment", "read_requirements", "run_isolated"]

_HOME_OF = {
    "Isolation": "optim.isolation.environments",
    "find_environment": "optim.isolation.environments",
    "read_requirements": "optim.isolation.environments",
    "run_isolated": "optim.isolation.client",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'optim.isolation' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOME_OF[name]), name)
