"""Options of ``openvino.precision``."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from optim import PassOptions


class PrecisionOptions(PassOptions):
    """bfloat16 has the range of float32 and 8 bits of mantissa, float16 11 bits and a range up to 65504."""

    to: Literal["bf16", "f16"] = Field("bf16", description="precision of the computation")
