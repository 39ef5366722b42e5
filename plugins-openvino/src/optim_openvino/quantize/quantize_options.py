"""Options of ``openvino.quantize``."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from optim import PassOptions


class QuantizeOptions(PassOptions):
    """As ``nncf.quantize`` has them."""

    preset: Literal["performance", "mixed"] = Field(
        "mixed", description="performance: all ranges are symmetric; mixed: those of activations are not"
    )
    transformer: bool | None = Field(
        None, description="whether NNCF leaves alone what hurts in attention; left out: where there is a Softmax"
    )
    smooth_alpha: float = Field(
        0.8,
        ge=-1,
        le=1,
        description="SmoothQuant in products: how much of an activation's outliers goes into the weights, 0 to 1; "
        "-1: none; NNCF's own is 0.95",
    )
    bias_correction: Literal["fast", "accurate", "none"] = Field(
        "fast", description="what makes up for the mean error of a layer in its bias; accurate goes layer by layer"
    )
    samples: int = Field(128, ge=1, description="samples that ranges are measured on, at most")
    keep: tuple[str, ...] = Field((), description="names of nodes left in float")
