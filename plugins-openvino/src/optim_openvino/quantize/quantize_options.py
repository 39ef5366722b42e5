"""Options of ``openvino.quantize``."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from optim import PassOptions


class QuantizeOptions(PassOptions):
    """As ``nncf.quantize`` has them."""

    preset: Literal["performance", "mixed"] = Field(
        "mixed", description="performance: all ranges are symmetric; mixed: ranges of activations are asymmetric"
    )
    transformer: bool | None = Field(
        None,
        description="let NNCF skip the sensitive parts of attention; by default it does so if the graph has a Softmax",
    )
    smooth_alpha: float = Field(
        0.8,
        ge=-1,
        le=1,
        description=(
            "SmoothQuant in products: share of an activation's outliers that moves into the weights, 0 to 1; -1 "
            "is none; NNCF's own default is 0.95"
        ),
    )
    bias_correction: Literal["fast", "accurate", "none"] = Field(
        "fast", description="how the bias of a layer compensates its mean error; accurate goes layer by layer"
    )
    samples: int = Field(128, ge=1, description="largest number of calibration samples")
    keep: tuple[str, ...] = Field((), description="names of nodes that stay in float")
