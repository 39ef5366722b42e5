"""Progress of long work on stderr: a live line on a terminal, else a line for each new thing."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from optim.cli_kit.output import echo, printable


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """A function that is told what is going on. Ctrl-C ends every worker process first."""
    with _interruptible():
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.markup import escape

            started = time.monotonic()
            with Console(stderr=True).status("starting") as status:
                yield lambda text: status.update(
                    f"{escape(printable(text))} [dim]({time.monotonic() - started:.0f} s)[/dim]"
                )
        else:
            started = time.monotonic()
            yield lambda text: echo(f"[{time.monotonic() - started:6.1f} s] {text}", err=True)


@contextmanager
def _interruptible() -> Iterator[None]:
    from optim.jobs.process import kill_all

    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        kill_all()
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        kill_all()
