"""Options of ``qnn.context-binary``."""

from __future__ import annotations

from pydantic import Field

from optim import PassOptions


class ContextBinaryOptions(PassOptions):
    """Where the compiled graph lies, and how long the compiler thinks."""

    embed: bool = Field(False, description="store it inside model.onnx (up to 2 GB) instead of in a file beside it")
    optimization: int = Field(
        0,
        ge=0,
        le=3,
        description="optimization level of the compiler: 0 is its default, 3 searches most and takes longest",
    )
    vtcm_mb: int = Field(0, ge=0, description="memory on the chip to plan for, in MB; 0 is all that the chip has")
