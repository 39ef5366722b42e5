"""For every test: races of tenths of seconds, and Ctrl-C as a person's shell has it.

Files are spread over processes (``--dist loadfile``): what is dear to make is a fixture of its file.
"""

from __future__ import annotations

import os
import signal
import tempfile

from counted_clock import counted_clock  # noqa: F401 - fixtures for tests of every folder
from jobs_here import jobs_here  # noqa: F401

from optim._engine.search.explore.kernel_gains import KernelGains
from optim._engine.search.time_budget import TimeBudget

_LOCKS = tempfile.TemporaryDirectory(prefix="optim-tests-")
"""Each process has its own: no test waits for the clock of another, and no figure of theirs is asserted."""


def pytest_configure() -> None:
    """Races take tenths of seconds: what is tested is what a search makes of them, and what differs does by factors.

    A shell ignores Ctrl-C for what it starts in the background; tests of Ctrl-C start processes that must not.
    """
    TimeBudget.pace, TimeBudget.programs = 0.05, False
    KernelGains.measures = False
    os.environ["XDG_RUNTIME_DIR"] = _LOCKS.name
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
