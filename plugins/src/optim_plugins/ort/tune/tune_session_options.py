"""Options of ``ort.tune-session``."""

from __future__ import annotations

import re
from typing import Literal, Self

from pydantic import Field, model_validator

from optim import PassOptions

_PROCESSORS = re.compile(r"\d+(-\d+|(,\d+)*)")
"""What a thread runs on: ``3``, ``3,4`` or ``3-6``; onnxruntime counts logical processors from 1."""


class TuneSessionOptions(PassOptions):
    """What is left out stays as the runtime has it."""

    level: Literal["disable", "basic", "extended", "all"] | None = Field(
        None, description="graph optimization level of the runtime"
    )
    disabled_optimizers: tuple[str, ...] = Field(
        (), description="graph optimizers of the runtime to switch off, e.g. SkipLayerNormFusion"
    )
    intra_op_num_threads: int | None = Field(None, ge=1, description="number of threads inside an operator")
    intra_op_thread_affinities: tuple[str, ...] = Field(
        (),
        description=(
            'logical processors of each thread but the first, which is your program\'s: "3", "3,4" or "3-6", '
            "counted from 1; needs intra_op_num_threads"
        ),
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        given, threads = self.intra_op_thread_affinities, self.intra_op_num_threads
        if given and threads != len(given) + 1:
            raise ValueError(
                f"{len(given)} affinities are for intra_op_num_threads={len(given) + 1}: the first thread is that of "
                "your program, and has none"
            )
        for text in given:
            if not _PROCESSORS.fullmatch(text) or "0" in re.split("[,-]", text):
                raise ValueError(f"'{text}' names no processors: write 3, 3,4 or 3-6, counted from 1")
        return self
