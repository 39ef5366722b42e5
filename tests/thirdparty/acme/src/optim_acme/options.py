"""Options of Acme's passes."""

from __future__ import annotations

from pydantic import Field

from optim import PassOptions


class RoundOptions(PassOptions):
    """What a user may choose."""

    bits: int = Field(8, ge=2, le=16, description="Bits that a weight is rounded to.")
    keep: tuple[str, ...] = Field((), description="Names of MatMul nodes that are left alone.")
