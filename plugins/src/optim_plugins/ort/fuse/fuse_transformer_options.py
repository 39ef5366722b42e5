"""Options of ``ort.fuse-transformer``."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from optim import PassOptions

Fusion = Literal[
    "multi_head_attention",
    "attention",
    "rotary_embedding",
    "rms_normalization",
    "reshapes",
    "erf_gelu",
    "gelu",
    "bias_gelu",
    "skip_layer_normalization",
]


class FuseTransformerOptions(PassOptions):
    """Whose fusions, and what they leave alone."""

    engine: Literal["optim", "onnxruntime"] = Field(
        "optim",
        description=(
            "source of the fusions: optim is this package and onnxscript; onnxruntime is "
            "onnxruntime.transformers.optimizer"
        ),
    )
    leave_out: tuple[Fusion, ...] = Field(
        (),
        description=(
            "fusions of engine optim that should not run; attention includes the projections, "
            "multi_head_attention leaves them outside"
        ),
    )
