"""Options of ``ort.quantize-dynamic``."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from optim import PassOptions


class QuantizeDynamicOptions(PassOptions):
    """Kernels always take uint8 activations: those of x86-64 and Arm are fast for that."""

    weights: Literal["int8", "uint8"] = Field(
        "int8",
        description="type of weights of products; uint8 is for kernels that take no signed weights; LSTMs have int8",
    )
    symmetric: bool = Field(
        True,
        description=(
            "let the zero point of weights stand for 0; false lets the range of each scale follow the weights, which "
            "is more accurate for weights that are not centered"
        ),
    )
    per_channel: bool = Field(True, description="use a scale for each output column of a weight instead of one for all")
    reduce_range: bool | Literal["saturating"] = Field(
        False,
        description=(
            "store weights in 7 bits, for processors whose integer products saturate (AVX2): true for all nodes, "
            "'saturating' for nodes that lose more by saturation than by the missing bit"
        ),
    )
    smoothing: float = Field(
        0.0,
        ge=0,
        le=1,
        description=(
            "share of the activations' outliers that moves into the weights: 0 is none, 1 is all, 0.8 is a good "
            "value; needs samples"
        ),
    )
    correct_bias: bool = Field(
        False, description="correct the bias for the mean error of rounded weights; needs samples, costs no time"
    )
    scale_rows: bool = Field(
        False,
        description=(
            "give each row (token) its own scale if only one product reads it, so that a row of huge values does "
            "not cost the other rows their precision"
        ),
    )
    activation_bits: Literal[8, 16] = Field(
        8,
        description=(
            "bits of an activation; 16 runs two products of 8 bits, which removes most of the error of "
            "activations and doubles the time"
        ),
    )
    finer: tuple[str, ...] = Field(
        (), description="names of nodes whose activations get 16 bits while the others have 8"
    )
    keep: tuple[str, ...] = Field((), description="names of nodes that stay in float")
    only: tuple[str, ...] = Field((), description="names of nodes to quantize; all others stay in float")
    operators: tuple[Literal["MatMul", "Gemm", "LSTM"], ...] = Field(
        (), description="operators to quantize; by default all that the pass can quantize"
    )
