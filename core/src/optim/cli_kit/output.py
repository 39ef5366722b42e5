"""Output of commands: tables for people, JSON for machines, files that are checked before the work."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from optim.cli_kit.names import Decorated
from optim.errors import OptimError, disk_error

if TYPE_CHECKING:
    from rich.console import Console


_PIPED_WIDTH = 10_000
"""Columns where stdout is no terminal: no row is ever broken, so that grep finds it."""


_GAP = 2
"""Columns between two cells of a table."""

_NO_LETTER = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")
"""Control characters, what turns the direction of writing or cannot be seen, ends of lines, halves of a character."""

NOTHING = "–"  # noqa: RUF001 - an en dash stands in an empty cell


def json_option(function: Decorated) -> Decorated:
    """Adds the option ``--json``, passed on as ``as_json``."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout.")(function)


def printable(text: str) -> str:
    """Escapes everything in a text that could control a terminal.

    Names in models and texts in files may come from strangers. Lines and tabs stay as they are.
    """
    return _NO_LETTER.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def echo(text: str = "", *, err: bool = False) -> None:
    """Prints a line on stdout or stderr, after ``printable``."""
    click.echo(printable(text), err=err)


def print_json(value: object) -> None:
    """Prints ``value`` on stdout as indented JSON."""
    echo_json(json.dumps(value, indent=2, ensure_ascii=False))


def echo_json(text: str) -> None:
    """Print a text that is JSON; what a terminal would obey is written as JSON writes it, so the value is the same."""
    click.echo(_NO_LETTER.sub(lambda found: json.dumps(found[0])[1:-1], text.rstrip("\n")))


def print_rich(show: Callable[[Any], object]) -> None:
    """Print what ``show`` prints on a console of rich; it is given the console.

    If stdout is no terminal, no line is broken: grep finds it whole. Tables are then for ``tabbed``.
    """
    from rich.console import Console

    if sys.stdout.isatty():
        show(Console(highlight=False))
    else:
        click.echo(captured(show))


def captured(show: Callable[[Any], object]) -> str:
    """What ``show`` prints on a console of rich that is no terminal: no line is broken."""
    from rich.console import Console

    with StringIO() as text:
        # whatever FORCE_COLOR and a notebook say
        show(Console(file=text, width=_PIPED_WIDTH, highlight=False, force_terminal=False, force_jupyter=False))
        return "\n".join(line.rstrip() for line in text.getvalue().splitlines())


def tabbed(cells: Sequence[str]) -> str:
    """A row of a table where stdout is no terminal: nothing is padded, ``cut -f2`` finds the second cell."""
    return "\t".join(printable(cell).replace("\t", " ").replace("\n", " ") for cell in cells).rstrip()


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, styles: Sequence[str] = ()) -> None:
    """Prints a table on stdout.

    If stdout is not a terminal, each row is a line with tabs between its cells. If a terminal is too narrow for the
    longest words of all columns, the cells of a row are below each other, so that no name is broken.

    Args:
        columns: headings of the columns.
        rows: cells of each row, printed without markup, after ``printable``.
        styles: styles of rich, one for each row; or none.
    """
    if not sys.stdout.isatty():
        for row in (columns, *rows):
            click.echo(tabbed(row))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    table = Table(box=None, pad_edge=False, header_style="bold", show_header=True)
    words = [
        max(len(word) for cell in cells for word in ["", *cell.split()]) for cells in zip(columns, *rows, strict=True)
    ]
    if sum(words) + _GAP * len(words) > console.width:
        for row in rows:
            _print_stacked(columns, row, console)
        return
    for column, word in zip(columns, words, strict=True):
        table.add_column(column, overflow="fold", min_width=word)
    for number, row in enumerate(rows):
        table.add_row(*(Text(printable(cell)) for cell in row), style=styles[number] if styles else None)
    with console.capture() as captured:
        console.print(table)
    lines = (line.rstrip() for line in captured.get().splitlines())
    click.echo("\n".join(lines))


def _print_stacked(columns: Sequence[str], row: Sequence[str], console: Console) -> None:
    """The first cell, then every other one that says something, below it, with the heading of its column."""
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    console.print(Text(printable(row[0]), "bold"))
    below = Table(box=None, pad_edge=False, show_header=False)
    below.add_column(min_width=max(map(len, columns[1:]), default=0), style="dim")
    below.add_column(overflow="fold")
    for column, cell in zip(columns[1:], row[1:], strict=True):
        if cell:
            below.add_row(column, Text(printable(cell)))
    console.print(Padding(below, (0, 0, 0, 2)))


def print_fields(fields: Sequence[tuple[str, str]]) -> None:
    """Prints ``name  value`` lines on stdout without empty values, and indents further lines of a value."""
    shown = [(name, value) for name, value in fields if value]
    width = max((len(name) for name, _ in shown), default=0) + 2
    for name, value in shown:
        echo(f"{name:<{width}}" + value.replace("\n", "\n" + " " * width))


def options_text(options: Mapping[str, Any]) -> str:
    """The options that say something, e.g. ``level=basic, per_channel``.

    False and 0 do where the others were left out: ``pinning=False``. Of a sha256 the first digits are enough.
    """
    given = {name: value for name, value in options.items() if value not in (None, "", [], {}, ())}
    said = {name: value for name, value in given.items() if value} or (given if None in options.values() else {})
    return ", ".join(_option(name, value) for name, value in said.items())


def _option(name: str, value: Any) -> str:
    if value is True:
        return name
    if isinstance(value, list):
        return f"{name}={' + '.join(map(str, value))}" if len(value) < 4 else f"{name}: {len(value)}"
    return f"{name}={value[:8]}..." if re.fullmatch("[0-9a-f]{64}", str(value)) else f"{name}={value}"


def size_text(size_bytes: float | None) -> str:
    """Returns a size as text, e.g. ``90.4 MB``."""
    if size_bytes is None:
        return NOTHING
    amount = float(size_bytes)
    for unit in ("B", "kB", "MB"):
        if abs(amount) < 1000:
            return f"{amount:.0f} B" if unit == "B" else f"{amount:.3g} {unit}"
        amount /= 1000
    return f"{amount:.2f} GB"


def require_drawing(path: Path, flag: str) -> None:
    """Refuses a file that cannot take a drawing.

    Raises:
        OptimError[bad-plot]: the suffix is wrong, or the folder is missing.
        OptimError[not-writable]: the file cannot be written.
    """
    if path.suffix != ".svg" or not path.absolute().parent.is_dir():
        raise OptimError.usage(
            "bad-plot",
            f"cannot write a plot to {path}",
            "it must be an .svg in a folder that exists",
            f"{flag} {path.with_suffix('.svg').name}",
        )
    require_writable(path)


def require_writable(path: Path) -> None:
    """Refuses a file that cannot be written. Leaves the file as it is.

    Raises:
        OptimError[not-writable]: the folder is missing, or nothing may be written to it.
    """
    with _writing(path):
        is_new = not path.exists()
        path.open("a", encoding="utf-8").close()
        if is_new:
            path.unlink()


def write_text(path: Path, text: str) -> None:
    """Writes a text in UTF-8.

    Raises:
        OptimError[disk-full]: the disk is full.
        OptimError[not-writable]: the file cannot be written.
    """
    with _writing(path):
        path.write_text(text, encoding="utf-8")


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        fix = "name a file in a folder that you may write to, on a disk with room"
        raise replace(disk_error(error, f"{path} cannot be written"), fix=fix) from error
