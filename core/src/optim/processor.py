"""What is assumed about processors: a table for each runtime, which passes read and ``optim inspect --machine`` shows.

A backend's plugin keeps what it assumes of its runtime's kernels in :class:`Assumption` objects, and hands them out by
:meth:`optim.Backend.assumptions`. A pass that depends on one asks the object::

    ADDS_IN_32_BITS = Assumption(
        "8-bit products are added in 32 bits",
        (
            Case("x86-64 with VNNI", has_vnni, True, "documented", "the runtime's page on quantization"),
            Case("others", always, False, "assumed", "no other processor was looked at"),
        ),
    )
    if ADDS_IN_32_BITS.value(this_processor()): ...
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from optim.model import SessionConfig

Source = Literal["measured", "documented", "assumed"]
"""Where a value comes from: measured on this machine or asked of the runtime here; said by the runtime's documentation
or source; taken from another machine or guessed."""

Value = bool | int | float | str


@dataclass(frozen=True, slots=True)
class Processor:
    """A processor.

    Attributes:
        machine: as ``platform.machine()`` says it.
        flags: instruction sets by their Linux names; empty where the system does not tell.
    """

    machine: str
    flags: frozenset[str] = frozenset()

    @property
    def is_arm(self) -> bool:
        """Whether this is a 64-bit Arm."""
        return self.machine.lower() in ("arm64", "aarch64")

    @property
    def is_x86(self) -> bool:
        """Whether this is a processor of Intel's or AMD's kind."""
        return self.machine.lower() in ("x86_64", "amd64", "i386", "i686")


@cache
def this_processor() -> Processor:
    """The processor that this runs on."""
    return Processor(platform.machine(), frozenset(listed_flags(cpuinfo())))


def cpuinfo() -> str:
    """Text of ``/proc/cpuinfo``; empty on other systems than Linux."""
    if sys.platform != "linux":
        return ""
    try:
        return Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def listed_flags(text: str) -> list[str]:
    """Instruction sets of the first processor: Intel and AMD call them ``flags``, Arm ``Features``."""
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return value.split()
    return []


@dataclass(frozen=True, slots=True)
class Case:
    """What holds for some processors.

    Attributes:
        when: these processors, in words.
        applies: whether a processor is one of them.
        value: what holds; None: it is measured, see :attr:`Assumption.measure`.
        source: where the value comes from.
        evidence: the page, the file or the machine behind it.
    """

    when: str
    applies: Callable[[Processor], bool]
    value: Value | None
    source: Source
    evidence: str


@dataclass(frozen=True, slots=True)
class Finding:
    """An assumption on one processor, for a listing.

    Attributes:
        subject: what it is about.
        value: what holds.
        source: where the value comes from.
        evidence: the page, the file or the machine behind it.
        processors: which processors it holds for.
    """

    subject: str
    value: Value
    source: Source
    evidence: str
    processors: str


@dataclass(frozen=True, slots=True)
class Assumption:
    """Something that passes take for granted about the kernels of a runtime.

    Attributes:
        subject: what it is about, as a listing says it.
        cases: what holds for which processors; the first that applies counts, and the last applies to all.
        measure: finds the value on this machine, in milliseconds; None where nothing measures it.
        measured_by: how, for a listing.
    """

    subject: str
    cases: tuple[Case, ...]
    measure: Callable[[], Value] | None = None
    measured_by: str = ""

    def case(self, processor: Processor) -> Case:
        """The case of a processor."""
        return next(case for case in self.cases if case.applies(processor))

    def value(self, processor: Processor) -> Value:
        """What holds for a processor; it is measured only if its case says so."""
        found = self.case(processor).value
        if found is not None:
            return found
        assert self.measure is not None, f"'{self.subject}' has a case without a value, and nothing measures it"
        return self.measure()

    def here(self) -> Finding:
        """What holds on this machine: measured where that is possible."""
        case = self.case(this_processor())
        if self.measure is not None:
            return Finding(self.subject, self.measure(), "measured", self.measured_by, case.when)
        return Finding(self.subject, self.value(this_processor()), case.source, case.evidence, case.when)


def always(processor: Processor) -> bool:
    """The last case of an assumption: any processor."""
    return True


@dataclass(frozen=True, slots=True)
class ExactSettings:
    """Settings that a model needs to be computed as it says, where a runtime's kernels saturate or round without them.

    Attributes:
        session: laid over the model's own settings.
        equivalent: laid over :attr:`session`, one at a time: what must not change a figure then. They take the place of
            :meth:`Backend.equivalent_settings`.
        pass_name: the pass of role *requested* that lays :attr:`session` over a model; a run adds it to every candidate
            if the model's outputs differ without them.
        cause: why the runtime computes something else without them, one clause for notes and reports.
    """

    session: SessionConfig
    equivalent: tuple[SessionConfig, ...]
    pass_name: str
    cause: str
