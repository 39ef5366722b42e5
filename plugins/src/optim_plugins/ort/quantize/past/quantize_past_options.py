"""Options of ``ort.quantize-past``."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from optim import PassOptions


class QuantizePastOptions(PassOptions):
    """8 bits are a fourth of the memory and the fastest; 4 bits are an eighth, and drift more."""

    bits: Literal[4, 8] = Field(8, description="bits of a key or a value; two values of 4 bits share a byte")
    keep: tuple[str, ...] = Field((), description="names of attention nodes whose past stays in float")
