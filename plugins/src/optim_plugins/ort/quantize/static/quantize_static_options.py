"""Options of ``ort.quantize-static``."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from optim import PassOptions


class QuantizeStaticOptions(PassOptions):
    """Ranges of activations are fixed beforehand, on the samples; weights are symmetric."""

    format: Literal["qoperator", "qdq"] = Field(
        "qoperator",
        description=(
            "qoperator writes onnxruntime's 8-bit operators, which are fast at any optimization level; qdq writes "
            "float operators between QuantizeLinear and DequantizeLinear, which every runtime reads and some fuse"
        ),
    )
    calibration: Literal["minmax", "average", "foreseen", "percentile", "mse", "entropy"] = Field(
        "minmax",
        description=(
            "how the range of a tensor follows from the samples: minmax covers all values, average has the mean of "
            "the samples' ends, foreseen also covers the values expected in a further sample"
        ),
    )
    percentile: float = Field(
        99.99,
        gt=50,
        le=100,
        description="share of the values that a range covers, in percent; for calibration percentile",
    )
    ranges: dict[str, tuple[float, float]] = Field(
        default_factory=dict,
        description="least and greatest value by the name of a tensor, instead of those that the samples show",
    )
    activations: Literal["uint8", "int8", "uint16", "int16", "float8_e4m3fn"] = Field(
        "uint8",
        description="type of activations; 16 bits and float8_e4m3fn need format qdq, and have no fast kernel on a CPU",
    )
    weights: Literal["int8", "uint8", "float8_e4m3fn", "float32"] = Field(
        "int8", description="type of weights; float32 quantizes activations alone, with format qdq"
    )
    pairs_at_weights: bool = Field(
        False,
        description=(
            "store weights in float before QuantizeLinear and DequantizeLinear, for runtimes that quantize them "
            "themselves; with format qdq"
        ),
    )
    pairs_per_reader: bool = Field(
        False,
        description="give each reader of a tensor a QuantizeLinear and DequantizeLinear of its own; with format qdq",
    )
    symmetric: bool = Field(
        False, description="make ranges symmetric around 0, so that every zero point is 0; for int8 activations"
    )
    biases: Literal["int32", "float32"] = Field(
        "int32", description="type of biases: int32 as in the accumulator, or float32 for runtimes that need it"
    )
    per_channel: bool = Field(
        True, description="use a scale for each output channel of a weight instead of one for all"
    )
    reduce_range: bool | Literal["saturating"] = Field(
        False,
        description=(
            "store weights in 7 bits, for processors whose integer products saturate (AVX2): true for all nodes, "
            "'saturating' for nodes that lose more by saturation than by the missing bit"
        ),
    )
    correct_bias: bool = Field(False, description="correct the bias for the mean error of rounded weights")
    fill_channels: bool = Field(
        False,
        description=(
            "pad the input channels of convolutions with zeros to a multiple of four, because x86 has no fast "
            "kernel for 1 or 3 channels; the result is the same"
        ),
    )
    products: bool = Field(
        True,
        description=(
            "also quantize MatMul and Gemm, not only convolutions; with format qoperator also large LSTMs, whose "
            "activations are quantized at each step"
        ),
    )
    activation_products: bool = Field(
        False,
        description=(
            "also quantize MatMul of two activations, such as queries and keys; with format qdq, for accelerators"
        ),
    )
    smoothing: float = Field(
        0.0,
        ge=0,
        le=1,
        description=(
            "share of the activations' outliers that moves into the weights: 0 is none, 1 is all, 0.8 is a good "
            "value; needs samples"
        ),
    )
    keep: tuple[str, ...] = Field((), description="names of nodes that stay in float")
    only: tuple[str, ...] = Field((), description="names of nodes to quantize; all others stay in float")
    operators: tuple[Literal["Conv", "MatMul", "Gemm", "LSTM"], ...] = Field(
        (), description="operators to quantize; by default all that the pass can quantize"
    )

    @property
    def quantizes_lstms(self) -> bool:
        """Whether large LSTMs become 8-bit operators: onnxruntime has them, other runtimes do not."""
        return self.products and self.format == "qoperator"

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.activations.endswith("16") and self.format != "qdq":
            raise ValueError("16-bit activations need format qdq: onnxruntime has no 16-bit operators")
        if self.activations.endswith("16") and self.fill_channels:
            raise ValueError("fill_channels is for 8-bit kernels: onnxruntime has no Pad of 16 bits")
        if self.symmetric and self.activations.startswith("uint"):
            raise ValueError("symmetric ranges need int8 or int16 activations: unsigned ones have no 0 in their middle")
        if self.biases == "float32" and (self.format != "qdq" or self.correct_bias):
            raise ValueError("float32 biases need format qdq, without correct_bias: other operators have them in int32")
        if (self.activations == "float8_e4m3fn") != (self.weights == "float8_e4m3fn"):
            raise ValueError(
                "float8_e4m3fn is for activations and weights together: no runtime multiplies it by integers"
            )
        if self.activations == "float8_e4m3fn" and (
            self.biases != "float32" or self.fill_channels or self.reduce_range
        ):
            raise ValueError("float8_e4m3fn needs biases in float32, and takes no fill_channels and no reduce_range")
        if self.activations == "float8_e4m3fn" and self.calibration in ("mse", "entropy"):
            raise ValueError(
                "float8_e4m3fn takes calibration minmax, foreseen or percentile: the others count steps of one size"
            )
        of_pairs = {
            "weights float32": self.weights == "float32",
            "pairs_at_weights": self.pairs_at_weights,
            "pairs_per_reader": self.pairs_per_reader,
            "activation_products": self.activation_products,
        }
        if self.format != "qdq" and (asked := next((name for name, given in of_pairs.items() if given), "")):
            raise ValueError(f"{asked} needs format qdq: onnxruntime's 8-bit operators have no such form")
        if self.weights == "float32" and (self.pairs_at_weights or self.correct_bias or self.reduce_range):
            raise ValueError("weights float32 are not rounded: leave out pairs_at_weights, correct_bias, reduce_range")
        if self.weights == "float32" and self.biases != "float32":
            raise ValueError("weights float32 need biases float32: integers of the accumulator need integer weights")
        if self.pairs_at_weights and (self.weights == "float8_e4m3fn" or self.fill_channels):
            raise ValueError("pairs_at_weights takes 8-bit integers, without fill_channels")
        for name, (low, high) in self.ranges.items():
            if not (low < high and abs(low) < float("inf") and abs(high) < float("inf")):
                raise ValueError(f"the range of '{name}' is [{low}, {high}]: the first number must be the smaller one")
        if self.activations == "int8" and self.weights == "uint8":
            raise ValueError("int8 activations need int8 weights: onnxruntime has no other kernel")
        return self
