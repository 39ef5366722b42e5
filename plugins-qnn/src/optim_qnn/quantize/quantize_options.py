"""Options of ``qnn.quantize``."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from optim import PassOptions

Activations = Literal["uint8", "uint16", "int8", "int16"]
Weights = Literal["int8", "uint8", "int4"]


class QuantizeOptions(PassOptions):
    """Types that HTP computes with, and where to leave them."""

    activations: Activations = Field(
        "uint8", description="type of what nodes compute; 8 bits is fastest on HTP, 16 bits lose far less"
    )
    weights: Weights = Field("int8", description="type of constants; int4 halves the size again")
    per_channel: bool = Field(True, description="a scale for each output channel of Conv weights")
    calibration: Literal["minmax", "entropy", "percentile"] = Field(
        "minmax", description="how ranges are chosen; entropy and percentile hold all activations in memory"
    )
    symmetric_activations: bool = Field(False, description="ranges that are as far below zero as above")
    overrides: dict[str, dict[str, str | bool | int | float]] = Field(
        default_factory=dict,
        description="by tensor: type (uint8, uint16, int8, int16, int4), symmetric, axis, scale with zero_point, "
        "rmin, rmax; one that has no effect is an error",
    )
    keep: tuple[str, ...] = Field((), description="nodes that compute at 16 bits where the others have 8")
