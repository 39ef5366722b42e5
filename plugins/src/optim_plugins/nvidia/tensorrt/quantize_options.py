"""Options of ``tensorrt.quantize``."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from optim import PassOptions


class QuantizeOptions(PassOptions):
    """8 bits with zero points of 0 and biases in float, the only ones that TensorRT takes."""

    calibration: Literal["minmax", "percentile", "mse", "entropy"] = Field(
        "minmax", description="how much of what the samples showed a range covers: minmax all of it"
    )
    percentile: float = Field(
        99.99, gt=50, le=100, description="share of the values that a range covers, in percent, for percentile"
    )
    per_channel: bool = Field(True, description="one scale for each output channel of a weight, instead of one for all")
    products: bool = Field(True, description="quantize MatMul and Gemm, too, not just convolutions")
    smoothing: float = Field(
        0.0, ge=0, le=1, description="how much of the activations' outliers the weights take over, 0 none, 1 all"
    )
    keep: tuple[str, ...] = Field((), description="names of nodes left in float")
