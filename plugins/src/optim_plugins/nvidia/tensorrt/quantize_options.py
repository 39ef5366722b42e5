"""Options of ``tensorrt.quantize``."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from optim import PassOptions


class QuantizeOptions(PassOptions):
    """Zero points of 0 and biases in float, the only ones that TensorRT takes."""

    format: Literal["int8", "float8", "int4-weights"] = Field(
        "int8",
        description="int8 in pairs around products and convolutions; float8 (E4M3) in such pairs, for GPUs since Ada; "
        "int4-weights rounds the weights of products to 4 bits in blocks, and leaves what is multiplied in float",
    )
    calibration: Literal["minmax", "foreseen", "percentile", "mse", "entropy"] = Field(
        "minmax",
        description="how much of what the samples showed a range covers: minmax all of it, foreseen also what a "
        "further sample is expected to reach",
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

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.format == "float8" and self.calibration in ("mse", "entropy"):
            raise ValueError(
                "float8 takes calibration minmax, foreseen or percentile: the others count steps of one size"
            )
        return self
