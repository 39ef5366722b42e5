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
        flags: instruction sets by their Linux names; empty where the system does not tell: the runtime is asked how it
            adds 8-bit products, and the rest is taken for that of a modern one.
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
        if self.flags and self.is_x86:
            return bool(self.flags & _ADDS_IN_32_BITS)
        return not self.is_x86 or _adds_in_32_bits()

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


@cache
def _adds_in_32_bits() -> bool:
    """Whether the runtime adds 8-bit products here as they are: one whose every pair would saturate tells it."""
    import numpy as np
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    size = 64  # more than one tile of every kernel
    a, w = np.full((size, size), 255, np.uint8), np.full((size, size), 127, np.int8)
    ends = [
        helper.make_tensor_value_info(name, kind, a.shape)
        for name, kind in (("a", TensorProto.UINT8), ("y", TensorProto.INT32))
    ]
    node = helper.make_node("MatMulInteger", ["a", "w"], ["y"])
    graph = helper.make_graph([node], "sums", ends[:1], ends[1:], [numpy_helper.from_array(w, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    sums = np.asarray(session.run(None, {"a": a})[0])
    return bool((sums == a.astype(np.int32) @ w.astype(np.int32)).all())


def _flags() -> frozenset[str]:
    if sys.platform == "linux":
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(("flags", "Features")):
                return frozenset(line.split(":", 1)[1].split())
    return frozenset()
