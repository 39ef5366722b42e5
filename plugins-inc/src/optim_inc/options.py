"""Options of the passes."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from optim import PassOptions

Share = Annotated[float, Field(ge=0, le=1)]
_KEEP = "names of nodes left in float"
_SAMPLES = "samples to calibrate on, at most"


class QuantizeDynamicOptions(PassOptions):
    """Of ``inc.quantize-dynamic``."""

    keep: tuple[str, ...] = Field((), description=_KEEP)


class QuantizeStaticOptions(PassOptions):
    """Of ``inc.quantize-static``."""

    format: Literal["QDQ", "QLinear"] = Field("QDQ", description="how the graph says that a value is quantized")
    calibration: Literal["minmax", "kl", "percentile"] = Field("minmax", description="how ranges are found")
    smooth_quant: bool = Field(False, description="move outliers of activations into the weights first")
    alpha: Share | Literal["auto"] = Field(
        0.5, description="share of the outliers that SmoothQuant moves, 0..1; auto: found for each product"
    )
    per_channel: bool = Field(True, description="weights have a scale for each output channel, not one for all")
    first_last_in_float: bool = Field(False, description="leave the first and the last quantizable node in float")
    product_outputs: bool = Field(
        False, description="round what MatMul and Gemm compute as well, not only what they are given; QDQ only"
    )
    gemm_to_matmul: bool = Field(True, description="a Gemm becomes a MatMul and an Add, whose product is quantized")
    samples: int = Field(32, ge=1, description=_SAMPLES)
    keep: tuple[str, ...] = Field((), description=_KEEP)


class QuantizeWeightsOptions(PassOptions):
    """Of ``inc.quantize-weights``."""

    algorithm: Literal["RTN", "GPTQ", "AWQ"] = Field(
        "RTN", description="how weights are rounded; GPTQ and AWQ calibrate"
    )
    group_size: Literal[16, 32, 64, 128, 256] = Field(32, description="weights that share a scale")
    symmetric: bool = Field(True, description="no zero points")
    accuracy_level: Literal[0, 1, 4] = Field(
        4, description="what the runtime computes in: 4: int8, 1: float32, 0: its own choice"
    )
    samples: int = Field(16, ge=1, description=_SAMPLES)
    keep: tuple[str, ...] = Field((), description=_KEEP)


class QuantizeAwareOfAccuracyOptions(PassOptions):
    """Of ``inc.quantize-aware-of-accuracy``."""

    strategy: Literal["basic", "bayesian", "mse", "mse_v2", "exhaustive"] = Field(
        "basic", description="how neural-compressor walks through what can be tuned"
    )
    approach: Literal["static", "dynamic", "auto"] = Field("auto", description="auto: both are tried")
    tolerable_loss: float = Field(
        0.05, gt=0, description="how much worse the model may be by the run's metric, else its drift; absolute"
    )
    max_trials: int = Field(20, ge=1, description="models to try, at most")
    seconds: float = Field(600, gt=0, description="time for all trials, in seconds")
    samples: int = Field(32, ge=1, description=_SAMPLES)
    keep: tuple[str, ...] = Field((), description=_KEEP)
