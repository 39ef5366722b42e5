"""Options of the passes and exporters of this plugin."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from optim import PassOptions


class DynamoOptions(PassOptions):
    """How the dynamo exporter is called."""

    opset: int | None = Field(default=None, ge=18, description="ONNX opset version; by default that of the exporter")
    optimize: bool = Field(
        default=True, description="let the exporter fold constants; false keeps every parameter under its own name"
    )


class TorchScriptOptions(PassOptions):
    """How the TorchScript exporter is called."""

    opset: int = Field(default=17, ge=9, le=20, description="ONNX opset version")


class AttentionOptions(PassOptions):
    """Which implementation of attention is exported."""

    implementation: Literal["auto", "eager", "sdpa"] = Field(
        default="auto",
        description="attention of the model; auto is sdpa, or eager for families whose sdpa does not export",
    )


class DtypeOptions(PassOptions):
    """Which type the weights get."""

    dtype: Literal["auto", "float32", "float16", "bfloat16"] = Field(
        default="auto", description="type of the module; auto is float32, because every backend has kernels for it"
    )
