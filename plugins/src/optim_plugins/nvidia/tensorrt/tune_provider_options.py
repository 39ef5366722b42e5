"""Options of ``tensorrt.tune-provider``, after those of ONNX Runtime's TensorRT provider."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from optim import PassOptions


class TuneProviderOptions(PassOptions):
    """What is left out stays as the runtime has it."""

    profiles: bool = Field(
        True,
        description=(
            "build one engine for all shapes of the samples, from the smallest, most frequent and largest size of "
            "each axis"
        ),
    )
    precision: Literal["float32", "float16", "bfloat16"] = Field(
        "float32", description="type that TensorRT may use for float32 operators if it is faster"
    )
    integers: bool = Field(
        False, description="allow 8-bit kernels; a quantized graph needs them, and the pass sets this itself"
    )
    builder_level: int | None = Field(
        None, ge=0, le=5, description="how long TensorRT searches for kernels: the runtime's default is 3, 5 is longest"
    )
    workspace_mb: int | None = Field(
        None, ge=1, description="memory that a kernel may use in addition to the model's, in MB"
    )
    cuda_graph: bool = Field(
        False, description="launch all kernels together; needs fixed shapes and the same buffers in each run"
    )
    layer_norm_float32: bool = Field(False, description="compute normalizations in float32 if precision is lower")
    sparsity: bool = Field(False, description="allow kernels for sparse weights, in which two of four numbers are 0")
    auxiliary_streams: int | None = Field(
        None, ge=0, description="number of streams in addition to the main one; 0 saves memory"
    )
    share_memory: bool = Field(False, description="share one memory among all engines of a model")
