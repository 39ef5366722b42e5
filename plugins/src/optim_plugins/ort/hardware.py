"""What passes for onnxruntime assume about processors: one table, which ``optim inspect --machine`` shows.

Each row says what holds for which processors, and where that comes from. A figure that was measured on another machine
is an assumption here. Passes ask the functions at the end.
"""

from __future__ import annotations

from functools import cache

from optim.processor import Assumption, Case, Processor, always, this_processor

_PRECISION_MODE = "session.x64quantprecision in onnxruntime_session_options_config_keys.h"
_TWO_CORES = "optim's kernel probes on two cores with AVX512-VNNI; a run measures them again if the machine is quiet"
_TWO_CORES_AVX2 = "optim's kernel probes under AVX2 alone; a run measures them again if the machine is quiet"


def _is_unknown(processor: Processor) -> bool:
    """Whether the system does not tell its instruction sets."""
    return not processor.flags


def _is_x86(processor: Processor) -> bool:
    return processor.is_x86


def _has_vnni(processor: Processor) -> bool:
    return bool(processor.flags & {"avx512_vnni", "avx_vnni", "amx_int8"})


def _adds_exactly(processor: Processor) -> bool:
    return bool(ADDS_IN_32_BITS.value(processor))


@cache
def _sums_are_exact() -> bool:
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


ADDS_IN_32_BITS = Assumption(
    "8-bit products (U8S8) are added in 32 bits; otherwise pairs are added in 16 bits and saturate",
    (
        Case(
            "x86-64 with AVX512-VNNI, AVX-VNNI or AMX",
            lambda processor: processor.is_x86 and _has_vnni(processor),
            True,
            "documented",
            _PRECISION_MODE,
        ),
        Case(
            "x86-64 without VNNI",
            lambda processor: processor.is_x86 and bool(processor.flags),
            False,
            "documented",
            _PRECISION_MODE,
        ),
        Case("x86-64 on a system that lists no instruction sets", _is_x86, None, "measured", ""),
        Case("Arm and others", always, True, "assumed", "no kernel for them adds in 16 bits, as far as we know"),
    ),
    measure=_sums_are_exact,
    measured_by="a MatMulInteger every pair of which would saturate",
)

MULTIPLIES_BLOCKS = Assumption(
    "weights in blocks of 8 and fewer bits (MatMulNBits) are multiplied as integers, and not made floats before",
    (
        Case("a system that lists no instruction sets", _is_unknown, True, "assumed", "most processors in use do"),
        Case(
            "Arm with dot product",
            lambda processor: processor.is_arm and "asimddp" in processor.flags,
            True,
            "assumed",
            "mlas/lib/sqnbitgemm_kernel_neon_int8.cpp; never timed by us",
        ),
        Case(
            "x86-64 with AVX2",
            lambda processor: not processor.is_arm and "avx2" in processor.flags,
            True,
            "documented",
            "mlas/lib/sqnbitgemm_kernel_avx2.cpp",
        ),
        Case("others", always, False, "assumed", "no kernel of its own is known"),
    ),
)

CONVOLUTION_LANES = Assumption(
    "output channels that a kernel of convolutions in float32 computes at a time",
    (
        Case(
            "x86-64 with AVX512",
            lambda processor: "avx512f" in processor.flags,
            16,
            "documented",
            "MlasNchwcGetBlockSize in mlas/lib/platform.cpp",
        ),
        Case("other x86-64", _is_x86, 8, "documented", "MlasNchwcGetBlockSize in mlas/lib/platform.cpp"),
        Case("Arm and others", always, 8, "assumed", "as on x86-64 without AVX512"),
    ),
)

FILLS_CHANNELS = Assumption(
    "8-bit convolutions read an image in place only if its channels are a multiple of four",
    (
        Case("x86-64", _is_x86, True, "documented", "MlasConvSymPackWSize in mlas/lib/convsym.cpp"),
        Case("Arm and others", always, False, "assumed", "filling up was never timed there"),
    ),
)

SIGNED_ARE_SLOW = Assumption(
    "8-bit operators (QLinearConv and others) with signed activations are slower than float32",
    (
        Case("x86-64", _is_x86, True, "assumed", _TWO_CORES),
        Case("Arm and others", always, False, "assumed", "onnxruntime's page on quantization advises S8S8 there"),
    ),
)

DYNAMIC_RATIO = Assumption(
    "time of dynamic 8-bit products, float32 = 1",
    (
        Case("processors that add 8-bit products in 32 bits", _adds_exactly, 0.45, "assumed", _TWO_CORES),
        Case("others", always, 0.65, "assumed", _TWO_CORES_AVX2),
    ),
)
STATIC_RATIO = Assumption(
    "time of static 8-bit products and convolutions, unsigned activations, float32 = 1",
    (
        Case("processors that add 8-bit products in 32 bits", _adds_exactly, 0.35, "assumed", _TWO_CORES),
        Case("others", always, 0.6, "assumed", _TWO_CORES_AVX2),
    ),
)
SIGNED_RATIO = Assumption(
    "time of static 8-bit products and convolutions, signed activations, float32 = 1",
    (Case("all", always, 1.8, "assumed", _TWO_CORES),),
)
FLOAT16_RATIO = Assumption(
    "time of float16 products and convolutions, float32 = 1",
    (
        Case("x86-64", _is_x86, 1.5, "assumed", f"computed in float32 between casts; {_TWO_CORES}"),
        Case("Arm and others", always, 1.5, "assumed", "as on x86-64; kernels for Arm with FP16 were never timed"),
    ),
)
BLOCKS_RATIO = Assumption(
    "time of products with weights in blocks of 8 or 4 bits, float32 = 1",
    (Case("all", always, 0.9, "assumed", _TWO_CORES),),
)

TABLE = (
    ADDS_IN_32_BITS,
    MULTIPLIES_BLOCKS,
    CONVOLUTION_LANES,
    FILLS_CHANNELS,
    SIGNED_ARE_SLOW,
    DYNAMIC_RATIO,
    STATIC_RATIO,
    SIGNED_RATIO,
    FLOAT16_RATIO,
    BLOCKS_RATIO,
)


def multiplies_integers_exactly() -> bool:
    """Whether 8-bit products are added in 32 bits here; measured only if the system does not list instruction sets."""
    return bool(ADDS_IN_32_BITS.value(this_processor()))


def multiplies_blocks() -> bool:
    """Whether onnxruntime computes with blocks of 8 and fewer bits as they are here."""
    return bool(MULTIPLIES_BLOCKS.value(this_processor()))


def convolution_lanes() -> int:
    """How many output channels a kernel of convolutions in float32 computes at a time here."""
    return int(CONVOLUTION_LANES.value(this_processor()))


def fills_channels() -> bool:
    """Whether 8-bit convolutions want channels in multiples of four here."""
    return bool(FILLS_CHANNELS.value(this_processor()))


def signed_are_slow() -> bool:
    """Whether 8-bit operators with signed activations are slower than float32 here."""
    return bool(SIGNED_ARE_SLOW.value(this_processor()))
