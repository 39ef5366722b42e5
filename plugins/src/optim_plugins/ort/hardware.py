"""What this processor is fast at."""

from __future__ import annotations

import platform
import sys
from functools import cache
from pathlib import Path


@cache
def processor_flags() -> frozenset[str]:
    """Instruction sets by their Linux names; empty where the system does not tell."""
    if sys.platform == "linux":
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(("flags", "Features")):
                return frozenset(line.split(":", 1)[1].split())
    return frozenset()


def is_x86() -> bool:
    """Whether this is a processor of Intel's or AMD's kind."""
    return platform.machine().lower() in ("x86_64", "amd64", "i386", "i686")


def multiplies_integers_exactly() -> bool:
    """Whether 8-bit products are added in 32 bits: with VNNI or on Arm.

    AVX2 alone adds pairs of products in 16 bits and saturates.
    """
    if platform.machine().lower() in ("arm64", "aarch64"):
        return True
    flags = processor_flags()
    return not flags or bool(flags & {"avx512_vnni", "avx_vnni", "amx_int8"})


def multiplies_blocks() -> bool:
    """Whether onnxruntime computes with blocks of 8-bit and fewer bits as they are, not after making floats of them."""
    if platform.machine().lower() in ("arm64", "aarch64"):
        return not processor_flags() or "asimddp" in processor_flags()
    flags = processor_flags()
    return not flags or "avx2" in flags
