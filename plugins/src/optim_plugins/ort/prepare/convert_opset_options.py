"""Options of ``ort.convert-opset``."""

from __future__ import annotations

from pydantic import Field

from optim import PassOptions


class ConvertOpsetOptions(PassOptions):
    """Newer is not faster by itself: a version is worth what other passes can do with it."""

    to: int = Field(21, ge=7, description="version of the standard operators; the runtime must support it")
