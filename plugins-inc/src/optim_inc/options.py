"""Options of the passes."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from optim import PassOptions


class QuantizeDynamicOptions(PassOptions):
    """Of ``inc.quantize-dynamic``."""

    keep: tuple[str, ...] = Field((), description="names of nodes left in float")


class QuantizeStaticOptions(PassOptions):
    """Of ``inc.quantize-static``."""

    format: Literal["QDQ", "QLinear"] = Field("QDQ", description="how the graph says that a value is quantized")
    calibration: Literal["minmax", "kl", "percentile"] = Field("minmax", description="how ranges are found")
    smooth_quant: bool = Field(False, description="move outliers of activations into the weights first")
    alpha: float | Literal["auto"] = Field(0.5, description="share that SmoothQuant moves, 0..1, or found by itself")
    samples: int = Field(32, ge=1, description="samples to calibrate on, at most")
    keep: tuple[str, ...] = Field((), description="names of nodes left in float")
