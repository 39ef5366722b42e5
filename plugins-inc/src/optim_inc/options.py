"""Options of the passes."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from optim import PassOptions

Share = Annotated[float, Field(ge=0, le=1)]
_KEEP = "names of nodes that stay in float"
_SAMPLES = "largest number of calibration samples"

GraphLevel = Literal["auto", "none", "basic", "extended", "all"]
_GRAPH = "optimizations of ONNX Runtime before quantization; auto is extended for language models, else basic"

_Bits = Literal["auto", 7, 8]
_WEIGHT_BITS = "bits of weights; auto is 8 on processors with VNNI, else 7, which their kernels do not saturate"

_QuantLevel = Literal["auto", 0, 1]
_LEVEL = "0 quantizes few types of operators, 1 all that the options allow, auto tries both"


class QuantizeDynamicOptions(PassOptions):
    """Of ``inc.quantize-dynamic``."""

    operators: tuple[
        Literal["MatMul", "Gemm", "Conv", "Gather", "LSTM", "Attention", "EmbedLayerNormalization"], ...
    ] = Field((), description="types of operators to quantize; none: all that Neural Compressor can")
    graph_optimization: GraphLevel = Field("auto", description=_GRAPH)
    weight_bits: _Bits = Field("auto", description=_WEIGHT_BITS)
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
    operators: tuple[Literal["MatMul", "Gemm", "Conv"], ...] = Field(
        ("MatMul", "Gemm", "Conv"), min_length=1, description="types of operators to quantize"
    )
    quant_level: _QuantLevel = Field("auto", description=_LEVEL)
    graph_optimization: GraphLevel = Field("auto", description=_GRAPH)
    weight_bits: _Bits = Field("auto", description=_WEIGHT_BITS)
    qdq_at_weights: bool = Field(
        False, description="store weights in float with QuantizeLinear beside them, as TensorRT reads them"
    )
    qdq_for_each_consumer: bool = Field(
        False, description="give each reader of a tensor QuantizeLinear and DequantizeLinear of its own"
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
    confidence_batches: int = Field(2, ge=1, description="samples on which strategy mse_v2 judges one operator")
    quant_level: _QuantLevel = Field(1, description=_LEVEL)
    graph_optimization: GraphLevel = Field("auto", description=_GRAPH)
    weight_bits: _Bits = Field("auto", description=_WEIGHT_BITS)
    tolerable_loss: float = Field(
        0.05, gt=0, description="largest accepted loss of the run's metric, or largest drift if the run has no metric"
    )
    relative_loss: bool = Field(False, description="take the tolerable loss as a share of the original's metric")
    objective: Literal["first", "performance", "footprint"] = Field(
        "first",
        description="first ends at the first model that is accurate enough; "
        "others use all trials or seconds, and keep the best by Neural Compressor's own measurement",
    )
    max_trials: int = Field(20, ge=1, description="largest number of models to try")
    seconds: float = Field(600, gt=0, description="time limit for all trials, in seconds")
    samples: int = Field(32, ge=1, description=_SAMPLES)
    keep: tuple[str, ...] = Field((), description=_KEEP)
