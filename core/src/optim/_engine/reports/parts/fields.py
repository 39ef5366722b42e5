"""What every part of ``report.json`` is made of."""

from __future__ import annotations

import math
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


Figure = Annotated[float | None, BeforeValidator(_finite)]
"""A number, or null where there is none or where it is not finite."""


class Part(BaseModel):
    """One object of the report; unknown fields are refused."""

    # built when first used: a report has few of its parts, and classes that nobody uses cost 0.02 s of every command
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, defer_build=True)
