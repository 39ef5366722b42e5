"""Part of a report: how long a decoder takes for an answer, and what its past takes of memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from optim._engine.reports.parts.fields import Part

if TYPE_CHECKING:
    from optim._engine.generation.timing import GenerationTimes


class DepthReport(Part):
    """One token behind a past."""

    tokens: int = Field(description="of the past")
    tokens_per_s: float
    past_bytes: int = Field(description="memory of the past while the token is computed")


class GenerationReport(Part):
    """One answer to one prompt, one row at a time."""

    prompt: int = Field(description="tokens of the prompt")
    new: int = Field(description="tokens of the answer")
    first_ms: float = Field(description="until the first token")
    answer_ms: float = Field(description="the whole answer, what is between the depths interpolated")
    depths: tuple[DepthReport, ...]


def generation_report(found: GenerationTimes | None) -> GenerationReport | None:
    """Of a lane; None where the goal is another."""
    if found is None:
        return None
    rows = zip(found.depths, found.token_s, found.past_bytes, strict=True)
    depths = tuple(DepthReport(tokens=n, tokens_per_s=1 / s, past_bytes=b) for n, s, b in rows)
    first, answer = 1e3 * found.first_s, 1e3 * found.seconds
    return GenerationReport(prompt=found.prompt, new=found.new, first_ms=first, answer_ms=answer, depths=depths)
