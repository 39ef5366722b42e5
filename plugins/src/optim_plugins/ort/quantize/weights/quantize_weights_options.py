"""Options of ``ort.quantize-weights``."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from optim import PassOptions


class QuantizeWeightsOptions(PassOptions):
    """8 bits are safe; 4 are smaller and, for one token at a time, faster; 2 suit only models trained for them."""

    bits: Literal[2, 4, 8] = Field(8, description="of a weight")
    block_size: Literal[16, 32, 64, 128, 256] = Field(128, description="weights of one column that share a scale")
    symmetric: bool = Field(True, description="no zero points; with them (false) 2 and 4 bits are closer")
    method: Literal["rtn", "k-quant", "scale-estimation", "hqq", "gptq"] = Field(
        "rtn",
        description="rtn rounds to nearest; k-quant searches each scale; scale-estimation does so by errors that count "
        "as much as their inputs are large; gptq makes up for each error in the weights still to be rounded, too: both "
        "need samples; hqq gives each block a fractional zero point, which onnxruntime has no fast kernel for",
    )
    awq: bool = Field(
        False,
        description="let normalizations scale channels down that are large, and weights up, where that makes products "
        "err less; for scale-estimation and gptq",
    )
    accuracy_level: Literal[0, 1, 4] = Field(
        4,
        description="what products are computed in: 4 is 8-bit integers, 1 is float32, 0 leaves it to the runtime; "
        "for 1 and 0 onnxruntime has fast kernels at 4 bits only",
    )
    embedding_bits: Literal[0, 2, 4, 8] = Field(8, description="of tables that are looked up; 0 leaves them in float")
    finer: tuple[str, ...] = Field((), description="names of nodes whose weights get 8 bits, where others have fewer")
    keep: tuple[str, ...] = Field((), description="names of nodes left in float")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.method == "hqq" and self.bits == 8:
            raise ValueError("hqq has 2 or 4 bits: onnxruntime takes no fractional zero points for 8")
        if self.method == "hqq" and self.symmetric:
            raise ValueError("hqq moves zero points, and symmetric leaves none: set symmetric to false")
        if self.awq and self.method not in ("scale-estimation", "gptq"):
            raise ValueError("awq looks at samples: set method to scale-estimation or gptq")
        return self
