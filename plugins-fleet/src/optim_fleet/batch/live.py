"""How a batch goes, on stderr: on a terminal a table of what runs now, and a line for each run that has ended."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from optim.cli_kit import echo, printable
from optim.engine.fleet import figure_text, ratio_text
from optim_fleet.batch.index import IndexRow

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.table import Table

_TAIL_BYTES = 4096
"""Of a log: its last line is what a run is doing."""


class BatchStanding:
    """What runs, what has ended, and what is still to come; it is told from the thread of the batch."""

    def __init__(self, runs: int) -> None:
        self.runs = runs
        self.ended = 0
        self._logs: dict[str, Path] = {}
        self._guard = threading.Lock()
        self._started = time.monotonic()

    def begun(self, name: str, log: Path) -> None:
        """A run was handed over; it runs from when its log is there."""
        with self._guard:
            log.unlink(missing_ok=True)  # of an earlier time
            self._logs[name] = log

    def finished(self, rows: Sequence[IndexRow], known: bool) -> None:
        """A run has ended, or was finished before."""
        with self._guard:
            self.ended += 1
            self._logs.pop(rows[0].name.partition("/")[0], None)
        for row in rows:
            self.say(line_of(row, known=known))

    def say(self, text: str) -> None:
        """Print a line that stays."""
        echo(text, err=True)

    def running(self) -> list[tuple[str, str]]:
        """Returns the runs that have begun, each with what it is doing."""
        with self._guard:
            logs = dict(self._logs)
        return [(name, _last_line(log)) for name, log in logs.items() if log.exists()]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Table | str]:
        """The runs that go on, then how many are left."""
        from rich.table import Table

        table = Table(box=None, pad_edge=False, show_header=False)
        table.add_column(no_wrap=True)
        table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
        running = self.running()
        for name, doing in running[: max(1, console.height - 4)]:
            table.add_row(printable(name), printable(doing), style="")
        minutes, seconds = divmod(int(time.monotonic() - self._started), 60)
        yield table
        yield f"{minutes}:{seconds:02}  {self.ended} of {self.runs} ended, {len(running)} running"


@contextmanager
def standing(runs: int) -> Iterator[BatchStanding]:
    """How a batch of so many runs goes, shown as long as it goes."""
    shown = BatchStanding(runs)
    if not sys.stderr.isatty():
        yield shown
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(stderr=True, highlight=False)
    with Live(shown, console=console, refresh_per_second=2, transient=True):
        shown.say = lambda text: console.print(Text(printable(text)))  # type: ignore[method-assign]
        yield shown


def line_of(row: IndexRow, *, known: bool = False) -> str:
    """E.g. ``minilm-0.05: improved, ratio 0.57, drift 0.048, 88 s``."""
    parts: list[str] = [row.status]
    if row.ratio is not None:
        parts += [f"ratio {ratio_text(row.ratio)}", f"drift {figure_text(row.drift)}"]
    if row.exit_status:
        parts.append(" ".join(row.reason.split()))  # a parser's words may have lines
    parts.append("run before" if known else f"{row.seconds:.0f} s")
    return f"{row.name}: {', '.join(parts)}"


def _last_line(log: Path) -> str:
    try:
        with log.open("rb") as stream:
            stream.seek(max(0, log.stat().st_size - _TAIL_BYTES))
            lines = stream.read().decode("utf-8", "replace").strip().splitlines()
    except OSError:
        return ""
    return lines[-1] if lines else "starting"
