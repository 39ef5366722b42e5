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
        "uint8", description="type of activations; 8 bits are fastest on HTP, 16 bits are far more accurate"
    )
    weights: Weights = Field("int8", description="type of weights; int4 halves the size again")
    per_channel: bool = Field(True, description="use a scale for each output channel of Conv weights")
    calibration: Literal["minmax", "entropy", "percentile"] = Field(
        "minmax",
        description=(
            "how the range of a tensor follows from the samples; entropy and percentile keep all activations in memory"
        ),
    )
    symmetric_activations: bool = Field(False, description="make ranges symmetric around zero")
    overrides: dict[str, dict[str, str | bool | int | float]] = Field(
        default_factory=dict,
        description=(
            "settings by tensor: type (uint8, uint16, int8, int16, int4), symmetric, axis, scale with zero_point, "
            "rmin, rmax; a setting without effect is an error"
        ),
    )
    keep: tuple[str, ...] = Field((), description="names of nodes that compute in 16 bits while the others have 8")
