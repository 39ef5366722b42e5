"""Options of ``qnn.preprocess``."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from optim import PassOptions


class PreprocessOptions(PassOptions):
    """What is asked for by name; everything else is done where it fits."""

    shapes: dict[str, tuple[int, ...]] = Field(
        default_factory=dict,
        description="shapes of dynamic inputs, e.g. {input_ids=[1, 128]}; by default those of the samples",
    )
    dimensions: dict[str, Annotated[int, Field(gt=0, strict=True)]] = Field(
        default_factory=dict,
        description="sizes by the name of a dimension, e.g. {batch=1, seq=128}, as in ort.fix-shapes; excludes shapes",
    )
    fuse_layer_norm: bool = Field(
        True, description="write ReduceMean sequences as one LayerNormalization (opset 17 or later)"
    )
    channel_last_inputs: tuple[str, ...] = Field((), description="inputs that change from (N, C, ...) to (N, ..., C)")
    channel_last_outputs: tuple[str, ...] = Field((), description="outputs that change from (N, C, ...) to (N, ..., C)")

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if self.dimensions and self.shapes:
            raise ValueError("dimensions and shapes exclude each other")
        return self
