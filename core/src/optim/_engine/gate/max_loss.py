"""Limits that a user gives (``--max-loss``, ``--max-drift``, ``--max-mismatch``), and a metric held to its limit."""

from __future__ import annotations

import math
from dataclasses import dataclass

from optim.errors import OptimError


@dataclass(frozen=True, slots=True)
class MaxLoss:
    """How much worse the metric may get.

    Attributes:
        amount: in the metric's own unit, or a share of the original's value; positive or 0.
    """

    amount: float
    relative: bool

    @property
    def text(self) -> str:
        """As a user writes it."""
        return f"{100 * self.amount:g}%" if self.relative else f"{self.amount:g}"

    def allowed(self, original: float) -> float:
        """The largest loss in the metric's own unit, given the original's value."""
        return self.amount * abs(original) if self.relative else self.amount


def parse_max_loss(text: str) -> MaxLoss:
    """``1%`` of the original's value, or an amount in the metric's own unit.

    Raises:
        OptimError[bad-budget]: it is neither.
    """
    amount, relative = _number(text)
    if not 0 <= amount < math.inf:
        raise OptimError.usage(
            "bad-budget",
            f"--max-loss cannot be {text}",
            "write a share of the metric's value on the original (1%), or an amount in its unit (0.01)",
            "--max-loss 1%",
        )
    return MaxLoss(amount, relative)


def parse_max_mismatch(text: str) -> float:
    """``1%`` of the elements of an output of texts or whole numbers, or a share of them, as ``0.01``.

    Raises:
        OptimError[bad-budget]: it is no share, or one that accepts any output.
    """
    return require_mismatch(_number(text)[0], text)


def _number(text: str) -> tuple[float, bool]:
    """A number, NaN if the text is none; and whether it was written as a percentage."""
    words = text.strip()
    is_percentage = words.endswith("%")
    try:
        return float(words.removesuffix("%")) / (100 if is_percentage else 1), is_percentage
    except ValueError:
        return math.nan, is_percentage


def require_max_drift(max_drift: float | None, fix: str) -> None:
    """Refuse a limit that bounds nothing: no drift is beyond NaN.

    Raises:
        OptimError[bad-budget]: it is no positive number.
    """
    if max_drift is not None and not 0 < max_drift < math.inf:
        raise OptimError.usage(
            "bad-budget",
            f"--max-drift cannot be {max_drift:g}",
            "a drift is a positive number: 0.1 is 1 % of the variance of an output",
            fix,
        )


def require_mismatch(share: float, text: str = "") -> float:
    """The share, unless it cannot be one.

    Raises:
        OptimError[bad-budget]: it is not from 0 to below 1.
    """
    if not 0 <= share < 1:
        raise OptimError.usage(
            "bad-budget",
            f"--max-mismatch cannot be {text or f'{share:g}'}",
            "write a share from 0 to below 1, or a percentage",
            "--max-mismatch 1%",
        )
    return share


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

    If the figure is ``provisional``, of some samples only, what one standard error explains is let through.
    """
    allowed = limit.allowed(figure.original)
    loss = figure.loss - (figure.error or 0.0 if provisional else 0.0)
    if loss <= allowed + 1e-12:
        return ""
    share = f", {figure.loss / abs(figure.original):.2%}" if limit.relative and figure.original else ""
    way = "fell" if figure.value < figure.original else "rose"
    moved = f"the metric {way} from {figure.original:.4g} to {figure.value:.4g}"
    return f"{moved} (loss {figure.loss:.3g}{share}), beyond the budget of {limit.text}"
