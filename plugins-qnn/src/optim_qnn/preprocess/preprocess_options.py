"""Options of ``qnn.preprocess``."""

from __future__ import annotations

from pydantic import Field

from optim import PassOptions


class PreprocessOptions(PassOptions):
    """What is asked for by name; everything else is done where it fits."""

    shapes: dict[str, tuple[int, ...]] = Field(
        default_factory=dict,
        description="shapes of dynamic inputs, e.g. {input_ids=[1, 128]}; by default those of the samples",
    )
    fuse_layer_norm: bool = Field(
        True, description="write ReduceMean sequences as one LayerNormalization (opset 17 or later)"
    )
    channel_last_inputs: tuple[str, ...] = Field((), description="inputs that change from (N, C, ...) to (N, ..., C)")
    channel_last_outputs: tuple[str, ...] = Field((), description="outputs that change from (N, C, ...) to (N, ..., C)")
