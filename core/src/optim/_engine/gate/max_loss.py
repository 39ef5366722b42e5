"""Limits that a user gives: ``--max-loss``, ``--max-drift`` and ``--max-mismatch``."""

from __future__ import annotations

import math
from dataclasses import dataclass

from optim.errors import OptimError


@dataclass(frozen=True, slots=True)
class MaxLoss:
    """How much worse the metric may get.

    Attributes:
        amount: in the metric's own unit, or a share of the original's value; positive or 0.
        relative: whether it is a share.
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
    words = text.strip()
    relative = words.endswith("%")
    try:
        amount = float(words.removesuffix("%")) / (100 if relative else 1)
    except ValueError:
        amount = math.nan
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
    words = text.strip()
    try:
        share = float(words.removesuffix("%")) / (100 if words.endswith("%") else 1)
    except ValueError:
        share = math.nan
    return require_mismatch(share, text)


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

    Args:
        share: of the elements of an output.
        text: as the user wrote it.

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
