"""Options of ``openvino.save-ir``."""

from __future__ import annotations

from pydantic import Field

from optim import PassOptions


class SaveIrOptions(PassOptions):
    """Where it is written is not for the pass to say: it lies beside the model."""

    compress: bool = Field(False, description="store weights in float16, which halves the file and rounds the weights")
