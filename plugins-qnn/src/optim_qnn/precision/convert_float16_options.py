"""Options of ``qnn.convert-float16``."""

from __future__ import annotations

from pydantic import Field

from optim import PassOptions


class ConvertFloat16Options(PassOptions):
    """HTP computes everything in float16 or nothing: there is no node to leave in float32."""

    io: bool = Field(False, description="also convert inputs and outputs; by default they stay in float32, with Casts")
