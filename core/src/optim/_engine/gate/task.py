"""A task metric beside the original's, and how much worse it may get."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optim._engine.gate.max_loss import MaxLoss


@dataclass(frozen=True, slots=True)
class TaskFigure:
    """A metric of one model.

    Attributes:
        value: over the samples together, in the metric's own unit.
        original: of the original on the same samples.
        loss: how much worse it is than the original; negative where it is better.
        error: standard error of the loss over samples; None for a single sample.
        samples: it was measured on.
    """

    value: float
    original: float
    loss: float
    error: float | None
    samples: int


def loss_objection(figure: TaskFigure, limit: MaxLoss, *, provisional: bool) -> str:
    """Returns why a loss is too large, in one sentence; empty where it is not.

    Args:
        figure: of the candidate.
        limit: what the user accepts.
        provisional: only some samples were looked at: what one standard error explains is let through.
    """
    allowed = limit.allowed(figure.original)
    loss = figure.loss - (figure.error or 0.0 if provisional else 0.0)
    if loss <= allowed + 1e-12:
        return ""
    share = f", {figure.loss / abs(figure.original):.2%}" if limit.relative and figure.original else ""
    return (
        f"the metric fell from {figure.original:.4g} to {figure.value:.4g}"
        if figure.value < figure.original
        else f"the metric rose from {figure.original:.4g} to {figure.value:.4g}"
    ) + f" (loss {figure.loss:.3g}{share}), beyond the budget of {limit.text}"
