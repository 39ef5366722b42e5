"""The error that optim raises for everything that a user can act on.

An error says what happened, the cause, a fix to type, and the package at fault. Its ``reference`` is stable: search for
the reference, and test for it.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import IntEnum

_MOST_NAMES = 12
"""Known names in an error: some two lines of a terminal; there are 45 passes and 500 errors."""


class ExitStatus(IntEnum):
    """Exit status of the command line.

    Attributes:
        DELIVERED: optim delivered a model, also if it is the original (``unchanged``). ``verify``: the model is within
            the budget.
        INTERNAL: optim has a defect, or a pass raised an error and no other pass helped.
        USAGE: The command line is wrong: an unknown pass, target, option or recipe key, or a folder that optim did not
            write.
        BAD_INPUT: The model or the samples are bad.
        NOT_HELD: No model meets the budget, a required pass failed, or the target failed. ``verify``: the model is
            beyond the budget. ``blame``: a node is blamed. ``plugins doctor``: there is something to fix.
        TARGET_UNAVAILABLE: The target is not available on this machine.
        INTERRUPTED: Ctrl-C ended the command.
    """

    DELIVERED = 0
    INTERNAL = 1
    USAGE = 2
    BAD_INPUT = 3
    NOT_HELD = 4
    TARGET_UNAVAILABLE = 5
    INTERRUPTED = 130


@dataclass(eq=False)
class OptimError(Exception):
    """An error that a user can act on.

    Attributes:
        reference: stable short name in kebab-case, e.g. ``opset-too-old``.
        what: what failed, in one line.
        cause: why it failed, with the name of the thing at fault.
        fix: what to do, if possible a command to paste.
        package: distribution at fault; empty: optim-core.
        status: exit status of the command line.
    """

    reference: str
    what: str
    cause: str = ""
    fix: str = ""
    package: str = ""
    status: ExitStatus = ExitStatus.BAD_INPUT

    @classmethod
    def usage(cls, reference: str, what: str, cause: str, fix: str, package: str = "") -> OptimError:
        """Makes an error about the request itself, whatever the model is: exit status 2."""
        return cls(reference, what, cause, fix, package, ExitStatus.USAGE)

    def __str__(self) -> str:
        """The whole diagnosis as the command line prints it."""
        lines = [f"error[{self.reference}]: {self.what}"]
        for label, text in (("cause", self.cause), ("fix", self.fix), ("from", self.package)):
            if text:
                lines.append(f"  {label + ':':<7}" + text.replace("\n", "\n         "))
        return "\n".join(lines)

    def naming(self, names: Mapping[str, str]) -> OptimError:
        """Returns the same error with other names for things, e.g. the user's file for one of the cache."""

        def renamed(text: str) -> str:
            for old, new in names.items():
                text = text.replace(old, new)
            return text

        return replace(self, what=renamed(self.what), cause=renamed(self.cause), fix=renamed(self.fix))

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle by fields: exceptions otherwise pickle by ``args``."""
        return (type(self), tuple(asdict(self).values()))


def is_disk_full(number: int | None) -> bool:
    """Whether this ``errno`` says that the disk or the quota is full, or that a file would be too large."""
    return number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def disk_error(error: OSError, what: str) -> OptimError:
    """Makes an error from a refusal of the file system.

    Args:
        error: the refusal.
        what: what optim could not do, in one line.
    """
    full = is_disk_full(error.errno)
    cause = f"{error.strerror or error}" + (f": {error.filename}" if error.filename else "")
    fix = "set OPTIM_CACHE_DIR to a folder that you may write to"
    if full:
        fix = "free some space (optim cache prune --max-size 0 does), or set OPTIM_CACHE_DIR to another disk"
    return OptimError.usage("disk-full" if full else "not-writable", what, cause, fix)


def unknown_name(kind: str, name: str, known: Iterable[str], *, fix: str = "") -> OptimError:
    """Makes the error for an unknown name, with the nearest known names.

    Args:
        kind: kind of the name, e.g. ``pass``; the reference becomes ``unknown-pass``.
        name: name that the user wrote.
        known: all known names.
        fix: command that lists all names; the error shows only the first ones.
    """
    import difflib  # only an error needs it

    known = sorted(known)
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    more = f" and {len(known) - _MOST_NAMES} others" if len(known) > _MOST_NAMES else ""
    cause = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(known[:_MOST_NAMES]) or 'none'}{more}"
    return OptimError.usage(f"unknown-{kind.replace(' ', '-')}", f"there is no {kind} '{name}'", cause, fix)


def some_of(names: Sequence[str], most: int) -> str:
    """Lists the first of several names and the number of the others: ``a, b and 3 more``."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def describe_exception(error: BaseException) -> str:
    """Describes an exception in one line, e.g. ``ModuleNotFoundError: No module named 'tensorrt'``."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
