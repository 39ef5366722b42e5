"""What passes for OpenVINO assume about processors; ``optim inspect --machine`` shows it.

OpenVINO says itself which precisions a device computes in, and ``openvino.precision`` asks it.
"""

from __future__ import annotations

from functools import partial

from optim.processor import Assumption, Case, always
from optim_openvino.runtime.core import capabilities

_SATURATION_PAGE = "https://docs.openvino.ai/latest/pot_saturation_issue.html"
_ASKED = "OPTIMIZATION_CAPABILITIES of OpenVINO's device CPU"
BFLOAT16, FLOAT16 = "BF16", "FP16"


def _has(precision: str) -> bool:
    return precision in capabilities("CPU")


def _asked(subject: str, precision: str) -> Assumption:
    return Assumption(subject, (Case("all", always, None, "measured", _ASKED),), partial(_has, precision), _ASKED)


ADDS_IN_32_BITS = Assumption(
    "8-bit products (U8S8) are added in 32 bits; otherwise pairs are added in 16 bits and saturate",
    (
        Case(
            "x86-64 with AVX512-VNNI, AVX-VNNI or AMX, and all that is not x86-64",
            lambda processor: not processor.is_x86 or bool(processor.flags & {"avx512_vnni", "avx_vnni", "amx_int8"}),
            True,
            "documented",
            _SATURATION_PAGE,
        ),
        Case(
            "x86-64 without VNNI, or on a system that lists no instruction sets",
            always,
            False,
            "documented",
            _SATURATION_PAGE,
        ),
    ),
)

TABLE = (
    ADDS_IN_32_BITS,
    _asked("a model can be computed in bfloat16 by a hint", BFLOAT16),
    _asked("a model can be computed in float16 by a hint", FLOAT16),
)
