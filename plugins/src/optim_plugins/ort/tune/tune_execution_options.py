"""Options of ``ort.tune-execution``."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from optim import PassOptions


class TuneExecutionOptions(PassOptions):
    """What is left out stays as the runtime has it."""

    spinning: bool | None = Field(None, description="let threads without work spin instead of sleeping")
    memory_pattern: bool | None = Field(None, description="plan memory by the shapes of the first run")
    arena: bool | None = Field(None, description="keep freed memory for later runs")
    flush_denormals: bool | None = Field(None, description="treat denormal numbers as zero")
    prepacking: bool | None = Field(
        None, description="store a second copy of the weights in memory, in the layout of the kernels"
    )
    execution_mode: Literal["sequential", "parallel"] | None = Field(
        None, description="parallel runs independent operators at the same time"
    )
    inter_op_num_threads: int | None = Field(
        None, ge=1, description="number of threads that run operators in parallel mode"
    )
