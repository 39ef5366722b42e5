"""Options of ``openvino.compress-weights``."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from optim import PassOptions


class CompressWeightsOptions(PassOptions):
    """As ``nncf.compress_weights`` has them; 8 bits need no samples."""

    mode: Literal["int8-sym", "int8-asym", "int4-sym", "int4-asym"] = Field(
        "int8-asym", description="bits of a weight, and whether it has a zero point (asym)"
    )
    group_size: int = Field(
        128, ge=-1, description="weights of one channel that share a scale, at 4 bits; -1: the whole channel"
    )
    ratio: float = Field(
        1.0, gt=0, le=1, description="share of the weights that get 4 bits; the most sensitive others get 8"
    )
    all_layers: bool = Field(False, description="whether the first and the last layer get 4 bits too")
    awq: bool = Field(False, description="whether weights that meet large activations are scaled up first; samples")
    scale_estimation: bool = Field(False, description="whether scales are fitted to the outputs of layers; samples")
    gptq: bool = Field(
        False,
        description="whether what a weight loses is made up for in those still to be rounded; samples, not with awq",
    )
    samples: int = Field(64, ge=1, description="samples that the last three look at, at most")
    keep: tuple[str, ...] = Field((), description="names of nodes left in float")

    @property
    def few_bits(self) -> bool:
        """Whether weights get 4 bits."""
        return self.mode.startswith("int4")

    @property
    def needs_samples(self) -> bool:
        """Whether it looks at what layers are fed."""
        return self.awq or self.scale_estimation or self.gptq or (self.few_bits and self.ratio < 1)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if not self.few_bits and self.needs_samples:
            raise ValueError("awq, scale_estimation and gptq are for 4 bits: set mode to int4-sym or int4-asym")
        if self.awq and self.gptq:
            raise ValueError("gptq rounds the weights of the model, which awq would scale: choose one of them")
        return self
