"""Options of ``qnn.quantize``."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

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
    stride: int | None = Field(
        None,
        ge=1,
        description="number of samples that are calibrated at a time, which limits memory; must divide their number",
    )
    symmetric_activations: bool = Field(False, description="make ranges symmetric around zero")
    symmetric_weights: bool | None = Field(
        None, description="make ranges of weights symmetric around zero; by default for signed weights only"
    )
    keep_removable: bool = Field(
        False,
        description=(
            "keep Relu and Clip behind a node, even if the range of its output clips as they do; for programs that "
            "take QuantizeLinear out again"
        ),
    )
    overrides: dict[str, dict[str, str | bool | int | float]] = Field(
        default_factory=dict,
        description=(
            "settings by tensor: type (uint8, uint16, int8, int16, int4), symmetric, axis, scale with zero_point, "
            "rmin, rmax; a setting without effect is an error"
        ),
    )
    keep: tuple[str, ...] = Field((), description="names of nodes that compute in 16 bits while the others have 8")
    float_nodes: tuple[str, ...] = Field((), description="names of nodes that stay in float")
    float_operators: tuple[str, ...] = Field((), description="operators that stay in float, e.g. Softmax")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.symmetric_weights is False and self.per_channel:
            raise ValueError("symmetric_weights false needs per_channel false: HTP has no zero points per channel")
        if both := sorted({*self.keep} & {*self.float_nodes}):
            raise ValueError(f"'{both[0]}' is in keep and in float_nodes: it has 16 bits or stays in float")
        return self
