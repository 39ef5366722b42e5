"""Options of the passes that the kit is tried on."""

from __future__ import annotations

from pydantic import Field

from optim import PassOptions


class RoundOptions(PassOptions):
    bits: int = Field(8, ge=2, le=8, description="Bits that a weight is rounded to.")
    keep: tuple[str, ...] = Field((), description="Names of MatMul nodes whose weights are left as they are.")


class BareOptions(PassOptions):
    strength: int = 3
