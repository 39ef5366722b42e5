"""Options of ``ort.quantize-weights``."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from optim import PassOptions


class QuantizeWeightsOptions(PassOptions):
    """8 bits are safe; 4 are smaller and, for one token at a time, faster; 2 suit only models trained for them."""

    bits: Literal[2, 4, 8] = Field(8, description="bits of a weight")
    block_size: Literal[16, 32, 64, 128, 256] = Field(
        128, description="number of weights of a column that share a scale"
    )
    symmetric: bool = Field(True, description="use no zero points; false is more accurate at 2 and 4 bits")
    method: Literal["rtn", "k-quant", "scale-estimation", "hqq", "gptq"] = Field(
        "rtn",
        description=(
            "`rtn` rounds to nearest. `k-quant` searches each scale. `scale-estimation` also weighs errors by their "
            "inputs. `gptq` also compensates each error in the weights that follow. `hqq` gives each block a "
            "fractional zero point, for which onnxruntime has no fast kernel. `scale-estimation` and `gptq` need "
            "samples"
        ),
    )
    awq: bool = Field(
        False,
        description=(
            "scale large channels down in normalizations and their weights up if that reduces the error of "
            "products; for scale-estimation and gptq"
        ),
    )
    accuracy_level: Literal[0, 1, 4] = Field(
        4,
        description=(
            "type that products are computed in: 4 is int8, 1 is float32, 0 leaves the choice to the runtime; for "
            "1 and 0 onnxruntime only has fast kernels at 4 bits"
        ),
    )
    embedding_bits: Literal[0, 2, 4, 8] = Field(8, description="bits of embedding tables; 0 leaves them in float")
    finer: tuple[str, ...] = Field(
        (), description="names of nodes whose weights get 8 bits while the others have fewer"
    )
    keep: tuple[str, ...] = Field((), description="names of nodes that stay in float")
    only: tuple[str, ...] = Field((), description="names of nodes to quantize; all others stay in float")
    operators: tuple[Literal["MatMul", "Gemm", "Gather"], ...] = Field(
        (), description="operators to quantize; by default all that the pass can quantize"
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.method == "hqq" and self.bits == 8:
            raise ValueError("hqq has 2 or 4 bits: onnxruntime takes no fractional zero points for 8")
        if self.method == "hqq" and self.symmetric:
            raise ValueError("hqq moves zero points, and symmetric leaves none: set symmetric to false")
        if self.awq and self.method not in ("scale-estimation", "gptq"):
            raise ValueError("awq looks at samples: set method to scale-estimation or gptq")
        return self
