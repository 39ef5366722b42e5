"""Options of ``cuda.tune-provider``, after those of ONNX Runtime's CUDA provider."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from optim import PassOptions


class TuneProviderOptions(PassOptions):
    """What is left out stays as the runtime has it."""

    conv_search: Literal["exhaustive", "heuristic", "default"] | None = Field(
        None, description="how cuDNN chooses the kernel of a convolution; exhaustive tries all in the first run"
    )
    conv_workspace: bool | None = Field(
        None, description="let cuDNN use as much memory as its fastest kernel needs; the runtime's default is true"
    )
    prefer_nhwc: bool | None = Field(
        None, description="compute convolutions and pooling in channels-last layout, which tensor cores prefer"
    )
    fuse_conv_bias: bool | None = Field(None, description="compute bias and activation inside cuDNN's convolution")
    tf32: bool | None = Field(
        None, description="compute float32 products in TF32 (10 bits of mantissa); the runtime's default from Ampere on"
    )
    cuda_graph: bool | None = Field(
        None,
        description=(
            "record all kernels once and launch them together; needs fixed shapes, and your program must bind "
            "inputs and outputs to the same buffers in each run (IO binding)"
        ),
    )
    arena: Literal["next-power-of-two", "same-as-requested"] | None = Field(
        None, description="how the arena grows; same-as-requested keeps less memory in reserve"
    )
    tunable_ops: bool | None = Field(
        None, description="time several kernels of an operator at its first run, and keep the fastest"
    )
    strict_skip_layer_norm: bool | None = Field(
        None,
        description=(
            "compute SkipLayerNormalization in float32: slower and more accurate; for float16 decoders with too "
            "much drift"
        ),
    )
    copy_in_default_stream: bool | None = Field(
        None, description="copy to the device in the stream that computes; false lets copies overlap with kernels"
    )
    one_stream: bool | None = Field(
        None, description="use one stream for all sessions of a provider instead of one for each"
    )
