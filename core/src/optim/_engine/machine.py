"""What must be known of a machine where figures were taken; on any system."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module

from optim.jobs.resources import ControlGroups, usable_cores, usable_memory_bytes
from optim.processor import cpuinfo, listed_flags

_INSTRUCTION_SETS = {
    "sse4_1": "SSE41",
    "avx": "AVX",
    "avx2": "AVX2",
    "fma": "FMA3",
    "avx_vnni": "",
    "avx512f": "AVX512F",
    "avx512bw": "AVX512BW",
    "avx512_vnni": "AVX512VNNI",
    "avx512_bf16": "AVX512BF16",
    "avx512_fp16": "AVX512FP16",
    "amx_int8": "",
    "amx_bf16": "",
    "asimd": "ASIMD",
    "asimdhp": "ASIMDHP",
    "asimddp": "ASIMDDP",
    "i8mm": "",
    "bf16": "",
    "sve": "SVE",
    "sve2": "",
}
"""Instruction sets by which kernels of runtimes differ: a figure of a machine with VNNI says nothing about one without.

Each has the name by which numpy asks the processor for it, on Windows and macOS too; empty where numpy does not ask."""


@dataclass(frozen=True, slots=True)
class Machine:
    """Where something is timed.

    Attributes:
        cores: processors that this process may use.
        machine_cores: processors of the machine.
        quota: how many cores' time the container or batch system gives, such as 1.5; None where it sets no quota.
        memory_bytes: of the machine, or of the container where that may use less; None where the system does not say.
        instruction_sets: what kernels differ by, in the names of Linux; empty where unknown.
    """

    cpu: str
    cores: int
    machine_cores: int | None
    quota: float | None
    memory_bytes: int | None
    os: str
    python: str
    instruction_sets: tuple[str, ...]


def this_machine() -> Machine:
    """Processor, memory, system and Python of this process."""
    return Machine(
        cpu=_cpu(),
        cores=usable_cores(),
        machine_cores=os.cpu_count() or 1,
        quota=ControlGroups().processors(),
        memory_bytes=usable_memory_bytes(),
        os=platform.platform(aliased=True, terse=False),
        python=platform.python_version(),
        instruction_sets=instruction_sets(),
    )


def instruction_sets() -> tuple[str, ...]:
    """What kernels of runtimes differ by here, in the names of Linux; empty where unknown."""
    return _instruction_sets(cpuinfo()) or _asked_by_numpy()


def _cpu() -> str:
    found = platform.processor() or platform.machine()
    if sys.platform == "linux":
        return _from_cpuinfo(cpuinfo()) or found
    if sys.platform == "darwin":
        asked = subprocess.run(
            ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"], capture_output=True, text=True, check=False
        )
        return asked.stdout.strip() or found
    return os.environ.get("PROCESSOR_IDENTIFIER", found)


def _from_cpuinfo(text: str) -> str:
    """Intel and AMD have a model name; boards with ARM processors name themselves under ``Model`` or ``Hardware``."""
    fields: dict[str, str] = {}
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if colon:
            fields.setdefault(name.strip().lower(), value.strip())
    board = fields.get("model", "") if "cpu part" in fields else ""
    return fields.get("model name") or fields.get("hardware") or board


def _instruction_sets(text: str) -> tuple[str, ...]:
    """Those that kernels differ by."""
    there = set(listed_flags(text))
    return tuple(name for name in _INSTRUCTION_SETS if name in there)


def _asked_by_numpy() -> tuple[str, ...]:
    """Those that numpy found when it was imported; none where it keeps them elsewhere."""
    try:
        found: Mapping[str, bool] = import_module("numpy._core._multiarray_umath").__cpu_features__
    except (ImportError, AttributeError):  # no name of its public interface
        return ()
    return tuple(name for name, asked in _INSTRUCTION_SETS.items() if found.get(asked))
