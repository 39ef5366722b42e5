"""Options of ``openvino.tune``, by the properties of OpenVINO that they set."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from optim import PassOptions


class TuneOptions(PassOptions):
    """What is left out stays as OpenVINO has it."""

    threads: int | None = Field(None, ge=1, description="threads inside one run; a count")
    streams: int | None = Field(None, ge=1, description="runs that may be computed side by side; a count")
    hyper_threading: bool | None = Field(None, description="whether both threads of a core are used")
    pinning: bool | None = Field(None, description="whether threads stay on their core")
    core_type: Literal["any", "performance", "efficient"] | None = Field(
        None, description="which cores are used, on processors with two kinds of them"
    )
    flush_denormals: bool | None = Field(None, description="whether denormal numbers count as zero")
    group_size: int | None = Field(
        None,
        ge=0,
        description="channels that share a scale where products with compressed weights quantize their other input as "
        "they run; 0: they leave it in float",
    )
    kv_precision: Literal["u8", "u4", "bf16", "f16", "f32"] | None = Field(
        None, description="precision of a state that the model itself keeps; a model that is fed its past has none"
    )
    model_cache: bool | None = Field(
        None, description="whether what is compiled is kept on disk, so that the next opening is quicker"
    )
