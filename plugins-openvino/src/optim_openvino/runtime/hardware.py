"""What passes for OpenVINO assume about processors; ``optim inspect --machine`` shows it.

OpenVINO says itself which precisions a device computes in, and ``openvino.precision`` asks it. Nothing of the table is
guessed by instruction sets.
"""

from __future__ import annotations

from functools import partial

from optim.processor import Assumption, Case, always
from optim_openvino.runtime.core import capabilities

_ASKED = "OPTIMIZATION_CAPABILITIES of OpenVINO's device CPU"
BFLOAT16, FLOAT16 = "BF16", "FP16"


def _has(precision: str) -> bool:
    return precision in capabilities("CPU")


def _asked(subject: str, precision: str) -> Assumption:
    return Assumption(subject, (Case("all", always, None, "measured", _ASKED),), partial(_has, precision), _ASKED)


TABLE = (
    _asked("a model can be computed in bfloat16 by a hint", BFLOAT16),
    _asked("a model can be computed in float16 by a hint", FLOAT16),
)
