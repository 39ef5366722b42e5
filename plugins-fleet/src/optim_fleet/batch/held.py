"""``optim`` that ends with whoever started it: ``python -m optim_fleet.batch.held run ...``.

Its stdin is a pipe that the starter holds and never writes to. When the starter ends, however that comes, so does the
pipe, and this process ends as by SIGTERM: its jobs with it, and nothing half-written.
"""

from __future__ import annotations

import _thread
import os
import signal
import sys
import threading
from collections.abc import Sequence

from optim.engine.fleet import main


def run(arguments: Sequence[str]) -> int:
    """Run ``optim``; returns the exit status."""
    signal.signal(signal.SIGTERM, _ended)
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    return main(arguments)


def _end_with_stdin() -> None:
    while os.read(0, 1024):
        pass
    _thread.interrupt_main(signal.SIGTERM)


def _ended(number: int, frame: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
