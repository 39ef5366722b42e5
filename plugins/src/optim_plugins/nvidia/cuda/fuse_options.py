"""Options of ``cuda.fuse``."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from optim import PassOptions


class FuseOptions(PassOptions):
    """Which fusions are left out, and what the caller promises."""

    leave_out: tuple[Literal["packed_attention", "group_norm"], ...] = Field(
        (), description="fusions to leave out: packed_attention, group_norm"
    )
    unpadded: bool = Field(
        False,
        description="the attention_mask is all ones, in every run: GroupQueryAttention does without it, as flash "
        "attention must",
    )
