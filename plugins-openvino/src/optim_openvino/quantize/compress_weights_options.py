"""Options of ``openvino.compress-weights``."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from optim import PassOptions


class CompressWeightsOptions(PassOptions):
    """As ``nncf.compress_weights`` has them; 8 bits need no samples."""

    mode: Literal["int8-sym", "int8-asym", "int4-sym", "int4-asym"] = Field(
        "int8-asym", description="bits of a weight; asym adds a zero point"
    )
    group_size: int = Field(
        128, ge=-1, description="number of weights of a channel that share a scale, at 4 bits; -1 is the whole channel"
    )
    ratio: float = Field(
        1.0, gt=0, le=1, description="share of the weights that get 4 bits; the most sensitive ones get 8"
    )
    all_layers: bool = Field(False, description="also store the first and the last layer in 4 bits")
    awq: bool = Field(
        False, description="first scale up weights that are multiplied with large activations; needs samples"
    )
    scale_estimation: bool = Field(False, description="fit scales to the outputs of layers; needs samples")
    gptq: bool = Field(
        False,
        description=(
            "compensate the error of each weight in the weights that are rounded after it; needs samples; excludes awq"
        ),
    )
    samples: int = Field(64, ge=1, description="largest number of samples for awq, scale_estimation and gptq")
    keep: tuple[str, ...] = Field((), description="names of nodes that stay in float")

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
