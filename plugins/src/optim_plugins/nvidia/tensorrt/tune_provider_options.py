"""Options of ``tensorrt.tune-provider``, after those of ONNX Runtime's TensorRT provider."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from optim import PassOptions


class TuneProviderOptions(PassOptions):
    """What is left out stays as the runtime has it."""

    profiles: bool = Field(
        True,
        description="one engine for all shapes of the samples: least, most frequent and greatest size of each axis",
    )
    precision: Literal["float32", "float16", "bfloat16"] = Field(
        "float32", description="types that TensorRT may compute float32 operators in, where it finds them faster"
    )
    integers: bool = Field(False, description="kernels of 8 bits, which a quantized graph needs; set where it is one")
    builder_level: int | None = Field(
        None, ge=0, le=5, description="how long TensorRT looks for kernels: the runtime's default is 3, 5 is longest"
    )
    workspace_mb: int | None = Field(None, ge=1, description="memory that a kernel may use beside the model's")
    cuda_graph: bool = Field(False, description="launch all kernels together; needs fixed shapes and the same buffers")
    layer_norm_float32: bool = Field(False, description="normalizations in float32 where precision is less")
    sparsity: bool = Field(False, description="kernels for weights of which two of four are 0")
    auxiliary_streams: int | None = Field(None, ge=0, description="streams beside the main one; 0 saves memory")
    share_memory: bool = Field(False, description="one memory for all engines of a model, instead of one each")
