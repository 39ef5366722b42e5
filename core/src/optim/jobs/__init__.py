"""Jobs: work in a subprocess of its own, because it may crash, hang or take all memory.

A job is a module with a dataclass ``Request`` and a function ``run(request, channel)`` that returns a dataclass:

    answer, peak_memory_bytes = run_job("my_plugin.look", to_wire(Request(...)), timeout_s=60)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optim.jobs.process import WorkerFailed as WorkerFailed
    from optim.jobs.process import run_job as run_job
    from optim.jobs.resources import usable_processors as usable_processors
    from optim.jobs.talk import Channel as Channel
    from optim.jobs.wire import from_wire as from_wire
    from optim.jobs.wire import to_wire as to_wire
else:
    from optim._engine.handed_on import hand_on

    __getattr__, __dir__, __all__ = hand_on(__name__)
