"""What a user may set of each layout."""

from __future__ import annotations

from pydantic import Field

from optim import PassOptions

_PLAIN = r"[A-Za-z0-9][A-Za-z0-9_.-]*"


class OptimumOptions(PassOptions):
    """Of the layout ``optimum``."""

    tag: str = Field(
        default="optim",
        pattern=rf"^({_PLAIN})?$",
        description="part of the file's name: onnx/model_TAG.onnx; empty: onnx/model.onnx, which is opened unnamed",
    )
