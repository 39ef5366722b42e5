"""Options of ``tensorrt.quantize``."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from optim import PassOptions


class QuantizeOptions(PassOptions):
    """Zero points of 0 and biases in float, the only ones that TensorRT takes."""

    format: Literal["int8", "float8", "int4-weights"] = Field(
        "int8",
        description=(
            "int8 quantizes products and convolutions; float8 (E4M3) does the same on GPUs from Ada on; "
            "int4-weights stores the weights of products in 4 bits, in blocks, and leaves activations in float"
        ),
    )
    calibration: Literal["minmax", "foreseen", "percentile", "mse", "entropy"] = Field(
        "minmax",
        description=(
            "how the range of a tensor follows from the samples: minmax covers all values, foreseen also covers "
            "the values expected in a further sample"
        ),
    )
    percentile: float = Field(
        99.99,
        gt=50,
        le=100,
        description="share of the values that a range covers, in percent; for calibration percentile",
    )
    per_channel: bool = Field(
        True, description="use a scale for each output channel of a weight instead of one for all"
    )
    products: bool = Field(True, description="also quantize MatMul and Gemm, not only convolutions")
    smoothing: float = Field(
        0.0,
        ge=0,
        le=1,
        description="share of the activations' outliers that moves into the weights: 0 is none, 1 is all",
    )
    keep: tuple[str, ...] = Field((), description="names of nodes that stay in float")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.format == "float8" and self.calibration in ("mse", "entropy"):
            raise ValueError(
                "float8 takes calibration minmax, foreseen or percentile: the others count steps of one size"
            )
        return self
