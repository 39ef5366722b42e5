"""Options of this vendor's passes."""

from __future__ import annotations

from pydantic import Field

from optim import PassOptions


class BytesOptions(PassOptions):
    """What a user may choose."""

    bits: int = Field(4, ge=2, le=8, description="Bits of a weight's byte that are used.")
    keep: tuple[str, ...] = Field((), description="Names of MatMul nodes that are left alone.")
