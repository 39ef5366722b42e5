"""What a job is: a typed request, a typed answer, and the module that makes the one of the other.

The module has a function ``run(request, channel)``, which is called in a process of its own. It may name as ``CHECKED``
the types that it expects of plugins: what checks them is made once, for all of its processes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from optim.jobs.fork_server import Server
from optim.jobs.process import WorkerProcess
from optim.jobs.wire import to_wire

Request = TypeVar("Request")
Answer = TypeVar("Answer")

STARTING_S = 5.0
"""With less, a process may not have imported a plugin and opened a model: that takes 1 to 3 s on a busy machine."""


@dataclass(frozen=True, slots=True)
class Job(Generic[Request, Answer]):
    """A kind of work; each job module ends its types with ``JOB = Job(__name__, Request, Answer)``.

    Attributes:
        here: whether it needs what only the user's machine has, such as the user's files.
        timed: whether its answer is a time, and others must be quiet meanwhile.
    """

    module: str
    request: type[Request]
    answer: type[Answer]
    here: bool = False
    timed: bool = False

    def start(self, request: Request, *, fresh: bool = False, server: Server | None = None) -> WorkerProcess:
        """A process that does it; whoever needs a conversation holds it, everybody else asks a ``Runner``."""
        return WorkerProcess(self.module, to_wire(request), fresh=fresh, server=server)
