"""Options of ``tensorrt.engine``."""

from __future__ import annotations

from pydantic import Field

from optim import PassOptions


class EngineOptions(PassOptions):
    """Where engines lie."""

    embed: bool = Field(False, description="store it inside model.onnx (up to 2 GB) instead of in a file beside it")
