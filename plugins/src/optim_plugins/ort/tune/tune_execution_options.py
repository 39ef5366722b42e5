"""Options of ``ort.tune-execution``."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from optim import PassOptions


class TuneExecutionOptions(PassOptions):
    """What is left out stays as the runtime has it."""

    spinning: bool | None = Field(None, description="whether threads without work spin instead of sleeping")
    memory_pattern: bool | None = Field(None, description="whether memory is planned by the shapes of the first run")
    arena: bool | None = Field(None, description="whether freed memory is kept for later runs")
    flush_denormals: bool | None = Field(None, description="whether denormal numbers count as zero")
    prepacking: bool | None = Field(None, description="whether weights are laid out anew for the kernels, in memory")
    execution_mode: Literal["sequential", "parallel"] | None = Field(
        None, description="whether operators that do not need each other run at the same time"
    )
    inter_op_num_threads: int | None = Field(None, ge=1, description="threads between operators, in parallel mode")
