"""Options of ``cuda.tune-provider``, after those of ONNX Runtime's CUDA provider."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from optim import PassOptions


class TuneProviderOptions(PassOptions):
    """What is left out stays as the runtime has it."""

    conv_search: Literal["exhaustive", "heuristic", "default"] | None = Field(
        None, description="how cuDNN's kernel for a convolution is chosen: exhaustive tries all at the first run"
    )
    conv_workspace: bool | None = Field(
        None, description="let cuDNN take as much memory as its fastest kernel wants; the runtime's default is true"
    )
    prefer_nhwc: bool | None = Field(
        None, description="convolutions and pooling in channels-last, as tensor cores want"
    )
    fuse_conv_bias: bool | None = Field(None, description="bias and activation inside cuDNN's convolution")
    tf32: bool | None = Field(
        None, description="products of float32 in TF32 (10 bits of mantissa), the runtime's default from Ampere on"
    )
    cuda_graph: bool | None = Field(
        None,
        description="record all kernels once and launch them together; needs fixed shapes, and whoever runs the model "
        "must bind inputs and outputs to the same buffers each time (IO binding)",
    )
    arena: Literal["next-power-of-two", "same-as-requested"] | None = Field(
        None, description="how much memory is taken where more is needed; same-as-requested keeps less in reserve"
    )
    tunable_ops: bool | None = Field(
        None, description="time several kernels of an operator at its first run, and keep the fastest"
    )
    strict_skip_layer_norm: bool | None = Field(
        None, description="SkipLayerNormalization in float32 inside: slower, closer; for float16 decoders that drift"
    )
    copy_in_default_stream: bool | None = Field(
        None, description="copies to the device in the stream that computes; false lets them overlap"
    )
    one_stream: bool | None = Field(None, description="one stream for all sessions of a provider instead of one each")
