"""Assumptions about processors: a table for each runtime. Passes read it, and ``optim inspect --machine`` shows it.

The plugin of a backend keeps its assumptions about the kernels of a runtime in ``Assumption`` objects, and returns them
from ``optim.Backend.assumptions``. A pass asks the object:

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
"""Source of a value. ``measured``: measured here, or asked of the runtime here. ``documented``: from documentation or
source of the runtime. ``assumed``: from another machine, or a guess."""

Value = bool | int | float | str


@dataclass(frozen=True, slots=True)
class Processor:
    """A processor.

    Attributes:
        machine: name, as ``platform.machine()`` returns it.
        flags: instruction sets by their Linux names; empty if the system does not tell.
    """

    machine: str
    flags: frozenset[str] = frozenset()

    @property
    def is_arm(self) -> bool:
        """Whether this is a 64-bit Arm processor."""
        return self.machine.lower() in ("arm64", "aarch64")

    @property
    def is_x86(self) -> bool:
        """Whether this is an x86-64 processor, such as those of Intel and AMD."""
        return self.machine.lower() in ("x86_64", "amd64", "i386", "i686")


@cache
def this_processor() -> Processor:
    """Returns the processor of this machine."""
    return Processor(platform.machine(), frozenset(listed_flags(cpuinfo())))


def cpuinfo() -> str:
    """Returns the text of ``/proc/cpuinfo``; empty on other systems than Linux."""
    if sys.platform != "linux":
        return ""
    try:
        return Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def listed_flags(text: str) -> list[str]:
    """Returns the instruction sets of the first processor. Intel and AMD list ``flags``, Arm ``Features``."""
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return value.split()
    return []


@dataclass(frozen=True, slots=True)
class Case:
    """A value of an assumption for some processors.

    Attributes:
        when: the processors, in words.
        applies: whether a processor is one of them.
        value: the value; None: measure it (``Assumption.measure``).
        source: source of the value.
        evidence: page, file or machine that shows the value.
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
        subject: what the assumption is about.
        value: the value.
        source: source of the value.
        evidence: page, file or machine that shows the value.
        processors: processors with this value.
    """

    subject: str
    value: Value
    source: Source
    evidence: str
    processors: str


@dataclass(frozen=True, slots=True)
class Assumption:
    """An assumption of passes about the kernels of a runtime.

    Attributes:
        subject: what the assumption is about, for a listing.
        cases: values by processor. The first case that applies counts, and the last one applies to all.
        measure: measures the value on this machine within milliseconds; None: nothing measures it.
        measured_by: method of the measurement, for a listing.
    """

    subject: str
    cases: tuple[Case, ...]
    measure: Callable[[], Value] | None = None
    measured_by: str = ""

    def case(self, processor: Processor) -> Case:
        """Returns the case of a processor."""
        return next(case for case in self.cases if case.applies(processor))

    def value(self, processor: Processor) -> Value:
        """Returns the value for a processor. Measures it only if its case says so."""
        found = self.case(processor).value
        if found is not None:
            return found
        assert self.measure is not None, f"'{self.subject}' has a case without a value, and nothing measures it"
        return self.measure()

    def here(self) -> Finding:
        """Returns the value for this machine, measured if possible."""
        case = self.case(this_processor())
        if self.measure is not None:
            return Finding(self.subject, self.measure(), "measured", self.measured_by, case.when)
        return Finding(self.subject, self.value(this_processor()), case.source, case.evidence, case.when)


def always(processor: Processor) -> bool:
    """Applies to any processor: the last case of an assumption."""
    return True


@dataclass(frozen=True, slots=True)
class ExactSettings:
    """Settings that make a runtime compute a model as written, if its kernels saturate or round otherwise.

    Attributes:
        session: settings that override those of the model.
        equivalent: settings on top of ``session``, one at a time, that must not change a result. They replace
            ``Backend.equivalent_settings``.
        pass_name: pass of role *requested* that gives a model these settings. A run adds the pass to every candidate if
            the outputs of the model differ without them.
        cause: one clause for notes and reports: why the runtime computes something else without the settings.
    """

    session: SessionConfig
    equivalent: tuple[SessionConfig, ...]
    pass_name: str
    cause: str
