"""Options of ``ort.tune-session``."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from optim import PassOptions


class TuneSessionOptions(PassOptions):
    """What is left out stays as the runtime has it."""

    level: Literal["disable", "basic", "extended", "all"] | None = Field(
        None, description="graph optimization level of the runtime"
    )
    disabled_optimizers: tuple[str, ...] = Field(
        (), description="graph optimizers of the runtime to switch off, e.g. SkipLayerNormFusion"
    )
    intra_op_num_threads: int | None = Field(None, ge=1, description="number of threads inside an operator")
