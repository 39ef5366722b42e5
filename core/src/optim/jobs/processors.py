"""How many processors this process may use."""

from __future__ import annotations

import os


def usable_processors() -> int:
    """Processors that this process may run on, which can be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
