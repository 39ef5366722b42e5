"""The one error optim raises for what a user can act on.

An error reads like a diagnosis: what happened, the cause with the offending thing named, a fix that can be
pasted, and the package at fault. Its ``reference`` is stable: search for it, test for it.
"""

from __future__ import annotations

import difflib
import errno
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import IntEnum

_MOST_NAMES = 12
"""Known names in an error: some two lines of a terminal; there are 45 passes and 500 errors."""


class ExitStatus(IntEnum):
    """What the command line exits with (docs/configuration.md, "Exit status")."""

    DELIVERED = 0
    INTERNAL = 1
    USAGE = 2
    BAD_INPUT = 3
    NOT_HELD = 4
    TARGET_UNAVAILABLE = 5
    INTERRUPTED = 130


@dataclass(eq=False)
class OptimError(Exception):
    """Something the user can act on.

    Attributes:
        reference: stable short name in kebab-case, e.g. ``opset-too-old``.
        what: what failed, one line.
        cause: why, with the offending thing named.
        fix: what to do, a command that can be pasted where there is one.
        package: the distribution at fault, where it is not optim-core.
        status: what the command line exits with.
    """

    reference: str
    what: str
    cause: str = ""
    fix: str = ""
    package: str = ""
    status: ExitStatus = ExitStatus.BAD_INPUT

    @classmethod
    def usage(cls, reference: str, what: str, cause: str, fix: str, package: str = "") -> OptimError:
        """Returns what is wrong with the request itself, whatever model it is about: exit status 2."""
        return cls(reference, what, cause, fix, package, ExitStatus.USAGE)

    def __str__(self) -> str:
        """The whole diagnosis as the command line prints it."""
        lines = [f"error[{self.reference}]: {self.what}"]
        for label, text in (("cause", self.cause), ("fix", self.fix), ("from", self.package)):
            if text:
                lines.append(f"  {label + ':':<7}" + text.replace("\n", "\n         "))
        return "\n".join(lines)

    def naming(self, names: Mapping[str, str]) -> OptimError:
        """The same diagnosis with other names for things, e.g. the user's file for one of the cache."""

        def renamed(text: str) -> str:
            for old, new in names.items():
                text = text.replace(old, new)
            return text

        return replace(self, what=renamed(self.what), cause=renamed(self.cause), fix=renamed(self.fix))

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle by fields: exceptions otherwise pickle by ``args``."""
        return (type(self), tuple(asdict(self).values()))


def is_disk_full(number: int | None) -> bool:
    """Whether this ``errno`` says that there is no room: disk or quota are full, or a file may not get that large."""
    return number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def disk_error(error: OSError, what: str) -> OptimError:
    """Returns what the file system refused, as a diagnosis.

    Args:
        error: as it came.
        what: what could not be done, one line.
    """
    full = is_disk_full(error.errno)
    cause = f"{error.strerror or error}" + (f": {error.filename}" if error.filename else "")
    fix = "set OPTIM_CACHE_DIR to a folder that you may write to"
    if full:
        fix = "free some space (optim cache prune --max-size 0 does), or set OPTIM_CACHE_DIR to another disk"
    return OptimError.usage("disk-full" if full else "not-writable", what, cause, fix)


def unknown_name(kind: str, name: str, known: Iterable[str], *, fix: str = "") -> OptimError:
    """The error for a name nobody knows, listing the near ones.

    Args:
        kind: what was looked for, e.g. ``pass``; the reference becomes ``unknown-pass``.
        name: what the user wrote.
        known: every name there is.
        fix: what to do: the command that lists all, since of many names an error shows the first.
    """
    known = sorted(known)
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    more = f" and {len(known) - _MOST_NAMES} others" if len(known) > _MOST_NAMES else ""
    cause = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(known[:_MOST_NAMES]) or 'none'}{more}"
    return OptimError.usage(f"unknown-{kind.replace(' ', '-')}", f"there is no {kind} '{name}'", cause, fix)


def some_of(names: Sequence[str], most: int) -> str:
    """The first of several names, and how many more there are: ``a, b and 3 more``; empty where there is none."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def describe_exception(error: BaseException) -> str:
    """One line for an exception, e.g. ``ModuleNotFoundError: No module named 'tensorrt'``."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
