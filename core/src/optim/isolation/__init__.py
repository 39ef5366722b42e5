"""A plugin's libraries in an environment of their own, where they cannot live beside ours, and work done in there.

Everything is imported when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optim.isolation.client import run_isolated as run_isolated
    from optim.isolation.environments import Isolation as Isolation
    from optim.isolation.environments import find_environment as find_environment
    from optim.isolation.environments import read_requirements as read_requirements
else:
    from optim._engine.handed_on import hand_on

    __getattr__, __dir__, __all__ = hand_on(__name__)
