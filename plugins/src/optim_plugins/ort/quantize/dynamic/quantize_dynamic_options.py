"""Options of ``ort.quantize-dynamic``."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from optim import PassOptions


class QuantizeDynamicOptions(PassOptions):
    """Kernels always take uint8 activations: those of x86-64 and Arm are fast for that."""

    per_channel: bool = Field(True, description="one scale for each output column of a weight, instead of one for all")
    reduce_range: bool | Literal["saturating"] = Field(
        False,
        description="7-bit weights, for processors without exact integer products (AVX2): for all nodes, or for those "
        "that lose more by saturation on the samples than by a bit of their weights (saturating)",
    )
    smoothing: float = Field(
        0.0,
        ge=0,
        le=1,
        description="how much of the activations' outliers the weights take over, 0 none, 1 all; "
        "0.8 is a good guess; needs samples",
    )
    correct_bias: bool = Field(
        False, description="make up in the bias for what rounding weights does on average; needs samples, costs no time"
    )
    scale_rows: bool = Field(
        False,
        description="divide each row (token) that only one product reads by its largest number before it is rounded, "
        "and multiply what comes of it: a row of huge values leaves the others their precision",
    )
    activation_bits: Literal[8, 16] = Field(
        8, description="16 are two products of 8 bits: closer by what rounding activations costs, in twice the time"
    )
    finer: tuple[str, ...] = Field((), description="names of nodes whose activations get 16 bits, where others have 8")
    keep: tuple[str, ...] = Field((), description="names of nodes left in float")
