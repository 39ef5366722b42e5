"""What a processor is fast at, by its instruction sets."""

from __future__ import annotations

import platform
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_ADDS_IN_32_BITS = frozenset({"avx512_vnni", "avx_vnni", "amx_int8"})


@dataclass(frozen=True, slots=True)
class Processor:
    """A processor.

    Attributes:
        machine: as ``platform.machine()`` says it.
        flags: instruction sets by their Linux names; empty where the system does not tell, which is taken for a modern
            one.
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

    @property
    def multiplies_integers_exactly(self) -> bool:
        """Whether 8-bit products are added in 32 bits: with VNNI or on Arm.

        AVX2 alone, and AVX512 without VNNI, add pairs of products in 16 bits and saturate.
        """
        return self.is_arm or not self.flags or bool(self.flags & _ADDS_IN_32_BITS)

    @property
    def multiplies_blocks(self) -> bool:
        """Whether onnxruntime computes with blocks of 8 and fewer bits as they are, not after making floats of them."""
        return not self.flags or ("asimddp" if self.is_arm else "avx2") in self.flags

    @property
    def convolution_lanes(self) -> int:
        """How many output channels onnxruntime's kernels of convolutions in float32 compute at a time."""
        return 16 if "avx512f" in self.flags else 8


@cache
def this_processor() -> Processor:
    """The one that this runs on."""
    return Processor(platform.machine(), _flags())


def is_x86() -> bool:
    """Whether this is a processor of Intel's or AMD's kind."""
    return this_processor().is_x86


def multiplies_integers_exactly() -> bool:
    """Whether 8-bit products are added in 32 bits here."""
    return this_processor().multiplies_integers_exactly


def multiplies_blocks() -> bool:
    """Whether onnxruntime computes with blocks of 8 and fewer bits as they are here."""
    return this_processor().multiplies_blocks


def _flags() -> frozenset[str]:
    if sys.platform == "linux":
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(("flags", "Features")):
                return frozenset(line.split(":", 1)[1].split())
    return frozenset()
