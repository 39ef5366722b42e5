"""The command ``optim``, also as ``python -m optim``: a process of our own."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence

_INTERRUPTED = 130
"""``ExitStatus.INTERRUPTED``, which is not imported yet."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    try:
        from optim._engine.cli.main import main as run
        from optim._engine.plugins.guard import process_is_a_command
        from optim.jobs.seldom import put_off_what_is_seldom_needed
    except KeyboardInterrupt:  # a tenth of a second, or far more on a busy machine
        sys.stderr.write("interrupted\n")
        return _INTERRUPTED

    put_off_what_is_seldom_needed()
    process_is_a_command()
    try:
        return run(arguments)
    finally:
        gc.freeze()  # else the end of the process looks for garbage in all that was imported: 0.05 of 1 s


if __name__ == "__main__":
    sys.exit(main())
