"""How an error reaches the user: a diagnosis on stderr, and JSON on stdout for who asked for it."""

from __future__ import annotations

import errno
import os
import re
import traceback
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import click

from optim.cli_kit.output import echo, print_json, printable
from optim.errors import ExitStatus, OptimError, disk_error, is_disk_full

_PLAIN = "NO_COLOR"
"""Environment variable: any value prints errors without colours."""

_NO_MEMORY = re.compile(r"failed to map segment|annot allocate memory|paging file is too small|can't start new thread")
"""How loaders of libraries say that there is no memory, of Linux, of macOS, of Windows; and how threads do."""


def diagnose(error: BaseException) -> OptimError:
    """Any exception as a diagnosis: ours, a wrong command line, a file that the system refuses, or a defect."""
    if isinstance(error, OptimError):
        return error
    if isinstance(error, click.ClickException):
        return _usage(error)
    named = isinstance(error, OSError) and (error.filename is not None or is_disk_full(error.errno))
    if isinstance(error, OSError) and (named or isinstance(error, FileNotFoundError)):
        return _refused(error)
    if isinstance(error, UnicodeEncodeError) and error.reason == "surrogates not allowed":
        from optim._engine.graphs.user_files import name_refused

        return name_refused(error.object)  # it can be opened, and not be written into a report
    message = " ".join(str(error).split())
    if _lacks_memory(error):
        return OptimError.usage(
            "out-of-memory",
            "the memory is not enough",
            type(error).__name__ + (f": {message}" if message else ""),
            "end other programs, or raise the limits of this shell (ulimit -a shows them)",
        )
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<")]
    where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return OptimError(
        "internal",
        "optim failed in a way that it should not",
        type(error).__name__ + (f": {message}" if message else "") + where,
        "run the same command as `optim --debug ...` and report what it prints",
        status=ExitStatus.INTERNAL,
    )


def _lacks_memory(error: BaseException) -> bool:
    """Whether the system has no memory left, for a library that is to be loaded too."""
    if isinstance(error, ImportError | RuntimeError):
        return bool(_NO_MEMORY.search(str(error)))
    return isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM)


def print_error(error: OptimError, *, as_json: bool, trace: BaseException | None = None) -> None:
    """Print a diagnosis, with ``as_json`` also on stdout as JSON; the traceback of ``trace`` comes first."""
    if trace is not None:
        for text in _traces(trace):
            echo(text.rstrip(), err=True)
    click.echo(_styled(printable(str(error))), err=True)
    if as_json:
        print_json({"error": asdict(error)})


def _traces(error: BaseException) -> Iterator[str]:
    """A worker's exception, where it was one, as the worker tells it; then this process's, a plugin's lines first."""
    from optim.jobs.process import WorkerFailed
    from optim.jobs.worker import foreign_first

    now: BaseException | None = error
    while now is not None:
        if isinstance(now, WorkerFailed) and now.details:
            yield f"In a process of its own:\n{now.details}"
        now = now.__cause__
    yield foreign_first(error)


def _refused(error: OSError) -> OptimError:
    """What the system refused to do with a file that nobody looked at before, e.g. since its name is too long."""
    if is_disk_full(error.errno):
        return disk_error(error, "there is no room")
    return OptimError.usage(
        "file-refused",
        "a file or folder cannot be used",
        f"{error.strerror or error}" + (f": {error.filename}" if error.filename is not None else ""),
        "check the path, and that you may read and write there; `optim --debug ...` shows where it was needed",
    )


def _usage(error: click.ClickException) -> OptimError:
    context = getattr(error, "ctx", None)
    if context is None:
        return OptimError.usage("usage", error.format_message(), "the command line cannot be read", "optim --help")
    usage = "the usage is" + " ".join(context.get_usage().split()).removeprefix("Usage")
    return OptimError.usage("usage", error.format_message(), usage, f"{context.command_path} --help")


def _styled(text: str) -> str:
    """Red where a person reads it; click drops the colours where stderr is no terminal."""
    if os.environ.get(_PLAIN):
        return text
    first, *rest = text.split("\n")
    head, colon, what = first.partition(": ")
    styled = [click.style(head, fg="red", bold=True) + colon + click.style(what, bold=True)]
    for line in rest:
        label, separator, value = line.partition(": ")
        known = separator and label.strip() in {"cause", "fix", "from"}
        styled.append(click.style(label + separator, dim=True) + value if known else line)
    return "\n".join(styled)
