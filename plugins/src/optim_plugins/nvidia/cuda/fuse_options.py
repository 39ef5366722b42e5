"""Options of ``cuda.fuse``."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from optim import PassOptions


class FuseOptions(PassOptions):
    """Which fusions are left out, and what the caller promises."""

    leave_out: tuple[Literal["packed_attention", "group_norm"], ...] = Field(
        (), description="fusions that should not run"
    )
    unpadded: bool = Field(
        False,
        description=(
            "promises that attention_mask is all ones in every run; GroupQueryAttention then needs no mask and "
            "can use flash attention"
        ),
    )
