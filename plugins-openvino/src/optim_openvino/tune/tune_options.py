"""Options of ``openvino.tune``, by the properties of OpenVINO that they set."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from optim import PassOptions


class TuneOptions(PassOptions):
    """What is left out stays as OpenVINO has it."""

    threads: int | None = Field(None, ge=1, description="number of threads of one run")
    streams: int | None = Field(None, ge=1, description="number of runs that may execute in parallel")
    hyper_threading: bool | None = Field(None, description="use both threads of a core")
    pinning: bool | None = Field(None, description="pin threads to their core")
    core_type: Literal["any", "performance", "efficient"] | None = Field(
        None, description="kind of cores to use, on processors with two kinds"
    )
    flush_denormals: bool | None = Field(None, description="treat denormal numbers as zero")
    group_size: int | None = Field(
        None,
        ge=0,
        description=(
            "channels that share a scale if products with compressed weights quantize their other input in each "
            "run; 0 leaves that input in float"
        ),
    )
    kv_precision: Literal["u8", "u4", "bf16", "f16", "f32"] | None = Field(
        None,
        description="precision of a state inside the model; a model that gets its past as an input has no such state",
    )
    model_cache: bool | None = Field(
        None, description="keep the compiled model on disk, so that it opens faster the next time"
    )
