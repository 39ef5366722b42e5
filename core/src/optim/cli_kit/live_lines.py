"""Progress of long work on stderr: on a terminal two live lines with a clock, else a line for each new thing."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from optim.cli_kit.output import echo, printable

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.text import Text

    from optim._engine.standing import Standing

_SAY_SECONDS_FROM = 3.0
_BAR = 10
"""What takes longer says for how long it has been going on."""


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """Returns a function that shows progress. Ctrl-C ends every worker process first."""
    with _interruptible():
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live
            from rich.text import Text

            console = Console(stderr=True, highlight=False)
            shown = LiveLines(above=lambda text: console.print(Text(text)))
            with Live(shown, console=console, refresh_per_second=4, transient=True):
                yield shown
        else:
            started = time.monotonic()
            yield lambda text: echo(f"[{time.monotonic() - started:6.1f} s] {text}", err=True)


class LiveLines:
    """What is going on and since when; below it how the search stands, where it does.

    It is called with each new thing, and rendered several times a second.

    Args:
        now: seconds of a clock that never goes back.
        above: prints a line above them, which stays.
    """

    def __init__(
        self, now: Callable[[], float] = time.monotonic, above: Callable[[str], None] = lambda text: None
    ) -> None:
        from rich.spinner import Spinner

        self._now = now
        self._above = above
        self._started = self._since = now()
        self._text = "starting"
        self._standing: Standing | None = None
        self._spinner = Spinner("dots")

    def __call__(self, text: str) -> None:
        """Something new is going on."""
        self._text, self._since = printable(text), self._now()

    def keep(self, text: str) -> None:
        """Something that stays, whole, whatever goes on next."""
        self._above(printable(text))

    def hear(self, standing: Standing) -> None:
        """The search stands otherwise than before."""
        self._standing = standing

    def lines(self, width: int = 0) -> list[str]:
        """What is shown now, without the spinner: one line or two.

        Args:
            width: of the first line; what does not fit is left out of its text, so that for how long it has been going
                on is seen. 0: as long as it is.
        """
        now = self._now()
        for_s = now - self._since
        so_long = f", {_duration(for_s)}" if for_s >= _SAY_SECONDS_FROM else ""
        clock, text = f"{_clock(now - self._started)}  ", self._text
        room = width - len(clock) - len(so_long)
        if 1 < room < len(text):
            text = f"{text[: room - 1]}…"
        first = f"{clock}{text}{so_long}"
        second = _standing_text(self._standing, now - self._started) if self._standing else ""
        return [first, second] if second else [first]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        """The lines, each cut where the terminal ends."""
        from rich.text import Text

        first, *rest = self.lines(options.max_width - 2)  # what the spinner and a space leave
        frame = Text.assemble(self._spinner.render(console.get_time()), " ", first)  # type: ignore[arg-type]
        for line in (frame, *(Text(f"  {line}", style="dim") for line in rest)):
            line.truncate(options.max_width, overflow="ellipsis")
            yield line


def _standing_text(standing: Standing, spent_s: float) -> str:
    """E.g. ``[####----] 18 s left · best so far: ratio 0.42, drift 0.012 · stage fuse, candidate 7 of 12``."""
    parts = []
    if standing.seconds_left is not None and (left := standing.seconds_left()) > 0:
        done = min(_BAR, int(_BAR * spent_s / (spent_s + left)))
        parts.append(f"[{'#' * done}{'-' * (_BAR - done)}] {_duration(left)} left")
    if standing.best_ratio is not None and standing.best_ratio >= 1:
        parts.append("nothing faster so far")
    elif standing.best_ratio is not None:
        parts.append(f"best so far: ratio {standing.best_ratio:.2f}, drift {standing.best_drift:.2g}")
    if standing.stage:
        candidates = f", candidate {min(standing.tried, standing.of)} of {standing.of}" if standing.of else ""
        target = f"{standing.target}: " if standing.target else ""
        parts.append(f"{target}stage {standing.stage}{candidates}")
    return " · ".join(parts)


def _clock(seconds: float) -> str:
    """E.g. ``1:07``."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _duration(seconds: float) -> str:
    """E.g. ``40 s`` or ``2 min``."""
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


@contextmanager
def _interruptible() -> Iterator[None]:
    from optim.jobs.process import kill_all

    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        kill_all()
        raise KeyboardInterrupt

    asked = [signal.SIGINT, signal.SIGTERM]
    hang_up = getattr(signal, "SIGHUP", None)  # of a terminal that is closed; Windows has none, nohup ignores it
    if hang_up is not None and signal.getsignal(hang_up) is signal.SIG_DFL:
        asked.append(hang_up)
    before = {number: signal.signal(number, interrupt) for number in asked}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        kill_all()
