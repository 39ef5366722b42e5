"""What a pass says beside its result: its log, what it prints, and what it leaves running."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from optim.jobs.leftovers import ending_leftovers
from optim.jobs.printed import printed
from optim.passes import PassResult

_MOST_LINES = 20
"""Lines of a pass's log that a report has: more hide what else it says."""


def recorded(log: logging.Logger, work: Callable[[], PassResult]) -> PassResult:
    """Apply a pass; its result has what it said.

    Lines of the log at INFO and above are notes of what changed something; all else that was printed is
    :attr:`PassResult.printed`. Where it raises, its log is at the end of what its process printed.
    """
    with printed() as output, ending_leftovers() as left, _logged(log) as lines:
        result = work()
    if not isinstance(result, PassResult):
        return result
    ended = tuple(f"left a process running, which was ended: {name}" for name in left)
    notes = (*lines, *ended) if result.changed else ended
    rest = tuple(line for line in output if line not in lines or not result.changed)
    said = () if result.changed else tuple(line for line in lines if line not in rest)
    return replace(result, notes=(*result.notes, *notes), printed=(*said, *rest))


@contextmanager
def _logged(log: logging.Logger) -> Iterator[list[str]]:
    lines: list[str] = []

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            line = f"{record.levelname.lower()}: {record.getMessage()}"
            print(line, file=sys.stderr)  # of a worker, whose output is kept where it fails
            if len(lines) < _MOST_LINES:
                lines.append(line)

    handler, level = Lines(logging.INFO), log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield lines
    finally:
        log.removeHandler(handler)
        log.setLevel(level)
