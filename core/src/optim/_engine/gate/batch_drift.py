"""How far a sample's answer moves with what it is run with: other samples in a batch, or padding."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BatchDrift:
    """How far answers move.

    Attributes:
        batched: drift between a sample alone and in a batch, the worst sample and output; None where that was
            not measured.
        padded: the same between a sample as it is and padded; None likewise.
        rows: samples in the batch.
        padding: positions that were added.
        notes: why something was not measured.
    """

    batched: float | None = None
    padded: float | None = None
    rows: int = 0
    padding: int = 0
    notes: tuple[str, ...] = ()

    @property
    def worst(self) -> float:
        """The greater of both; 0 where neither was measured."""
        return max(self.batched or 0.0, self.padded or 0.0)
