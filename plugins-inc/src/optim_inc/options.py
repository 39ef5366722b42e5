"""Options of the passes."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from optim import PassOptions

Share = Annotated[float, Field(ge=0, le=1)]
_KEEP = "names of nodes that stay in float"
_SAMPLES = "largest number of calibration samples"


class QuantizeDynamicOptions(PassOptions):
    """Of ``inc.quantize-dynamic``."""

    keep: tuple[str, ...] = Field((), description=_KEEP)


class QuantizeStaticOptions(PassOptions):
    """Of ``inc.quantize-static``."""

    format: Literal["QDQ", "QLinear"] = Field("QDQ", description="how the graph expresses quantized values")
    calibration: Literal["minmax", "kl", "percentile"] = Field(
        "minmax", description="how calibration finds the range of a tensor"
    )
    smooth_quant: bool = Field(False, description="first move outliers of activations into the weights (SmoothQuant)")
    alpha: Share | Literal["auto"] = Field(
        0.5, description="share of the outliers that SmoothQuant moves, 0 to 1; auto finds it for each product"
    )
    per_channel: bool = Field(
        True, description="use a scale for each output channel of a weight instead of one for all"
    )
    first_last_in_float: bool = Field(False, description="leave the first and the last quantizable node in float")
    product_outputs: bool = Field(
        False, description="also quantize the outputs of MatMul and Gemm, not only their inputs; only with format QDQ"
    )
    gemm_to_matmul: bool = Field(True, description="write a Gemm as MatMul and Add, and quantize the MatMul")
    samples: int = Field(32, ge=1, description=_SAMPLES)
    keep: tuple[str, ...] = Field((), description=_KEEP)


class QuantizeWeightsOptions(PassOptions):
    """Of ``inc.quantize-weights``."""

    algorithm: Literal["RTN", "GPTQ", "AWQ"] = Field(
        "RTN", description="how weights are rounded; GPTQ and AWQ need calibration samples"
    )
    group_size: Literal[16, 32, 64, 128, 256] = Field(32, description="number of weights that share a scale")
    symmetric: bool = Field(True, description="use no zero points")
    accuracy_level: Literal[0, 1, 4] = Field(
        4, description="type that the runtime computes in: 4 is int8, 1 is float32, 0 leaves the choice to the runtime"
    )
    samples: int = Field(16, ge=1, description=_SAMPLES)
    keep: tuple[str, ...] = Field((), description=_KEEP)


class QuantizeAwareOfAccuracyOptions(PassOptions):
    """Of ``inc.quantize-aware-of-accuracy``."""

    strategy: Literal["basic", "bayesian", "mse", "mse_v2", "exhaustive"] = Field(
        "basic", description="strategy of neural-compressor's search"
    )
    approach: Literal["static", "dynamic", "auto"] = Field("auto", description="kind of quantization; auto tries both")
    tolerable_loss: float = Field(
        0.05,
        gt=0,
        description="largest accepted loss of the run's metric, or largest drift if the run has no metric; absolute",
    )
    max_trials: int = Field(20, ge=1, description="largest number of models to try")
    seconds: float = Field(600, gt=0, description="time limit for all trials, in seconds")
    samples: int = Field(32, ge=1, description=_SAMPLES)
    keep: tuple[str, ...] = Field((), description=_KEEP)
