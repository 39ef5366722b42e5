"""Options of ``adapters.extract``."""

from __future__ import annotations

from pydantic import Field

from optim import PassOptions


class ExtractOptions(PassOptions):
    """How weights of adapters are supplied from now on."""

    required: bool = Field(default=False, description="every run must bring an adapter: the inputs have no default")
    rank: int | None = Field(
        default=None,
        ge=1,
        le=4096,
        description="of every adapter, smaller ones are filled up with zeros; by default any, chosen with each run",
    )
