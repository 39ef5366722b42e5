"""Options of the passes that convert precision."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from optim import PassOptions

_KEEP = "names of nodes that stay in float32"
_WEIGHTS_ONLY = "store weights in 16 bits and compute in float32: half the size on disk at the same speed"

_DELICATE = (
    "Softmax",
    "LogSoftmax",
    "LayerNormalization",
    "SimplifiedLayerNormalization",
    "SkipLayerNormalization",
    "SkipSimplifiedLayerNormalization",
    "InstanceNormalization",
    "GroupNormalization",
    "RMSNormalization",
    "BatchNormalization",
    "ReduceMean",
    "ReduceSum",
    "ReduceProd",
    "Exp",
    "Log",
    "Pow",
    "Sqrt",
    "Reciprocal",
    "Div",
    "Softplus",
    "Erf",
)
"""Operators whose rounding errors grow, or whose numbers span many magnitudes."""


class ConvertFloat16Options(PassOptions):
    """float16 wherever there is a kernel and the numbers fit."""

    io: Literal["keep", "convert"] = Field(
        "keep",
        description="keep: inputs and outputs stay float32; convert: they become float16; your program must convert",
    )
    weights_only: bool = Field(False, description=_WEIGHTS_ONLY)
    keep: tuple[str, ...] = Field((), description=_KEEP)


class ConvertBfloat16Options(PassOptions):
    """bfloat16 wherever there is a kernel; inputs and outputs stay float32, since numpy has no bfloat16."""

    weights_only: bool = Field(False, description=_WEIGHTS_ONLY)
    keep: tuple[str, ...] = Field((), description=_KEEP)


class MixedPrecisionOptions(PassOptions):
    """A 16-bit type for products and what is between them, float32 for what is delicate."""

    dtype: Literal["float16", "bfloat16"] = Field("float16", description="16-bit type of products")
    float32_operators: tuple[str, ...] = Field(_DELICATE, description="operators that stay in float32")
    keep: tuple[str, ...] = Field((), description="names of further nodes that stay in float32")
