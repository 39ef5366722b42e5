"""The budget: how much drift and loss a user accepts, and the words for a candidate that breaks it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from optim._engine.gate.drift import CAP, BatchDrift, Drift, OutputComparison, worst_drift
from optim.errors import OptimError

_ROOM = 0.92
"""What is foreseen of eight samples is 5 to 10 % more than the worst of them."""

_MADE_UP = 2.0
"""Budgets of drift that a lossy chain has on samples made from those given."""


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


@dataclass(frozen=True, slots=True)
class Objection:
    """Why a model does not hold; false if nothing speaks against it.

    Attributes:
        beyond_budget: whether the drift, or the loss of the metric, is more than the user accepts.
    """

    text: str = ""
    beyond_budget: bool = False

    def __bool__(self) -> bool:
        return bool(self.text)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Budget:
    """What the user accepts.

    Attributes:
        max_drift: of a chain with a lossy pass, drift; None with ``--lossless``, infinite where only the loss
            counts.
        tolerance: of a chain without one, measured on the original itself.
        max_loss: how much worse a task metric may get with a lossy pass.
        foresees: whether the drift is held on further samples like those measured too; on made-up ones, which are not
            drawn from anything, only the worst counts.
        max_mismatch: share of texts and whole numbers of one output that may differ, 0..1.
        batch_invariant: as --max-batch-drift; recorded runs know the limit by this name. None: no limit.
    """

    max_drift: float | None
    tolerance: float
    max_loss: MaxLoss | None = None
    foresees: bool = False
    batch_invariant: float | None = None
    max_mismatch: float = 0.0

    @property
    def text(self) -> str:
        """What a lossy pass is held to, e.g. ``a drift of 0.05 and a loss of 1%``."""
        if self.max_drift is None:
            return f"a drift of {self.tolerance:.2g}, which rounding explains"
        less = f" ({self.max_drift:g} is less than rounding error)" if self.max_drift < self.tolerance else ""
        parts = [] if math.isinf(self.max_drift) else [f"a drift of {self.limit(lossy=True):.3g}{less}"]
        parts += [f"a loss of {self.max_loss.text}"] if self.max_loss else []
        return " and ".join(parts)

    def limit(self, lossy: bool) -> float:
        """Largest drift for a chain; a lossy chain is held to the user's budget, never to less than rounding."""
        if lossy and self.max_drift is not None:
            return max(self.max_drift, self.tolerance)
        return self.tolerance

    def _never_right(self, found: OutputComparison, lossy: bool) -> str:
        """What is wrong with one output whatever drift is accepted; empty where nothing is."""
        most = found.limit if found.limit is not None else self.max_mismatch if lossy else 0.0
        if found.problem:
            return f"output '{found.name}': {found.problem}"
        if found.mismatched is not None and found.mismatched > most and not found.is_rounding:
            accepted = f"--max-mismatch accepts {self.max_mismatch:.2%}" if self.max_mismatch else "none may differ"
            return f"{found.mismatched:.2%} of output '{found.name}' differ; {accepted}"
        if found.limit is not None and not (found.relative_error <= found.limit or found.is_rounding):
            far = f"drift {found.relative_error:.3g} at {found.place}"
            return f"{far} is beyond the limit that its pass declares ({max(found.limit, self.tolerance):.3g})"
        return ""

    @property
    def repair_limit(self) -> float:
        """The worst drift on its samples that a repair aims at, so that further ones are likely to hold too."""
        return self.limit(lossy=True) * (_ROOM if self.foresees else 1.0)

    def held(self, drift: Drift) -> float:
        """The drift of a lossy chain that must be within the limit."""
        return max(drift.relative_error, drift.foreseen) if self.foresees else drift.relative_error

    def excess(self, drift: Drift, task: TaskFigure | None) -> float:
        """Returns how many times the budget a lossy chain takes; the worse of drift and loss."""
        beyond = [self.held(drift) / self.limit(lossy=True)]
        if task is not None and self.max_loss is not None:
            beyond.append(task.loss / max(1e-12, self.max_loss.allowed(task.original)))
        return max(beyond)

    def batch_objection(self, batch: BatchDrift | None) -> str:
        """Returns why a model's answers move too far in a batch or with padding; empty where they do not."""
        if self.batch_invariant is None or batch is None or batch.worst <= self.batch_invariant:
            return ""
        how = "in a batch" if (batch.batched or 0.0) >= (batch.padded or 0.0) else "with padding"
        return f"a sample's answer moves by {batch.worst:.3g} {how}, beyond --max-batch-drift {self.batch_invariant:g}"

    def unseen_objection(self, unseen: Iterable[OutputComparison], lossy: bool) -> str:
        """Returns why a model is wrong in sizes that no given sample has; empty if it is not.

        A lossy chain may change whole numbers there: the budget is for samples of the user's.
        """
        most = max(CAP, _MADE_UP * self.limit(lossy)) if lossy and self.max_drift is not None else CAP
        for one in unseen:
            where = f"output '{one.name}' " if one.name else ""
            if one.problem:
                return f"{where}{one.sample}, a sample that optim made from yours: {one.problem}"
            if not (one.relative_error <= most or one.is_rounding or (lossy and one.mismatched is not None)):
                far = f"drift {one.relative_error:.3g} at {where}{one.sample}, a sample that optim made from yours, is"
                return f"{far} beyond {'twice the budget' if most > CAP else 'what rounding explains'} ({most:.3g})"
        return ""

    def objection(
        self,
        comparisons: Iterable[OutputComparison],
        lossy: bool,
        task: TaskFigure | None = None,
        *,
        provisional: bool = False,
    ) -> Objection:
        """Returns why the outputs are not right; false if they are."""
        comparisons = list(comparisons)
        for comparison in comparisons:
            if reason := self._never_right(comparison, lossy):
                return Objection(reason)
        limit = self.limit(lossy)
        free = [one for one in comparisons if one.limit is None and one.mismatched is None and not one.is_rounding]
        worst = max(free, key=lambda one: one.relative_error if lossy else one.rounding_excess, default=None)
        if worst is not None and (not lossy or self.max_drift is None or not worst.relative_error <= limit):
            is_the_users = lossy and self.max_drift is not None
            bound = "the budget" if is_the_users else "what rounding explains"
            far = f"drift {worst.relative_error:.3g} at {worst.place} is beyond {bound} ({limit:.3g})"
            return Objection(far, is_the_users)
        drift = worst_drift(free)
        if lossy and self.max_drift is not None and not self.held(drift) <= limit:
            worst = max(free, key=lambda comparison: comparison.foreseen)
            seen = f"{min(worst.by_sample):.3g} to {worst.relative_error:.3g} on {len(worst.by_sample)} samples"
            return Objection(
                f"drift of further samples at output '{worst.name}', up to {worst.foreseen:.3g} after {seen}, "
                f"is beyond the budget ({limit:.3g})",
                beyond_budget=True,
            )
        if task is None or self.max_loss is None or not lossy:
            return Objection()
        return Objection(loss_objection(task, self.max_loss, provisional=provisional), beyond_budget=True)


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
