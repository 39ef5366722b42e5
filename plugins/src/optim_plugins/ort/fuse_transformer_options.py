"""Options of ``ort.fuse-transformer``."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from optim import PassOptions


class FuseTransformerOptions(PassOptions):
    """Which engine, and what it leaves alone."""

    engine: Literal["onnxscript", "onnxruntime"] = Field(
        "onnxscript", description="whose fusions: onnxscript.rewriter.ort_fusions or onnxruntime.transformers.optimizer"
    )
    leave_out: tuple[str, ...] = Field(
        (), description="fusions of onnxscript to leave out, e.g. skip_layer_normalization, attention"
    )
