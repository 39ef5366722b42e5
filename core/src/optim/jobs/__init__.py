"""One subprocess for each piece of work that may crash, hang or eat memory: a plugin's code, a runtime, a clock.

A job is a module with a dataclass ``Request`` and a function ``run(request, channel)`` that returns a dataclass::

    answer, peak_memory_bytes = run_job("my_plugin.look", to_wire(Request(...)), timeout_s=60)

Everything is imported when first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optim.jobs.channel import Channel
    from optim.jobs.process import WorkerFailed, run_job
    from optim.jobs.wire import from_wire, to_wire

__all__ = ["Channel", "WorkerFailed", "from_wire", "run_job", "to_wire"]

_HOME_OF = {
    "Channel": "optim.jobs.channel",
    "WorkerFailed": "optim.jobs.process",
    "from_wire": "optim.jobs.wire",
    "run_job": "optim.jobs.process",
    "to_wire": "optim.jobs.wire",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'optim.jobs' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOME_OF[name]), name)
