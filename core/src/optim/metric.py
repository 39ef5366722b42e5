"""A task metric: what a user really cares about, beside drift."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from optim.arrays import Array, Feeds, Outputs

if TYPE_CHECKING:
    from optim.options import PassOptions


class CannotJudge(Exception):  # noqa: N818 - it states why a metric has no value
    """What :attr:`Metric.call` raises where a sample is not what it needs; the message says why."""


@dataclass(frozen=True, slots=True)
class Metric:
    """Accuracy, cosine of embeddings, word error rate, ...

    What cannot be averaged over samples (F1, perplexity, a word error rate) counts instead: ``call`` returns counts,
    which are summed over samples, and ``finish`` makes the value of the sums.

    Attributes:
        name: what the user writes.
        higher_is_better: the direction.
        call: ``call(outputs, feeds, labels)`` for one sample: a number, averaged over samples; with ``finish`` an
            array of counts, as long for every sample.
        finish: the value of the summed counts; None where ``call`` returns the value itself.
        compares: what ``call`` is given as labels: those among the feeds, or the original model's outputs.
        needs_labels: whether a sample without labels cannot be judged.
        summary: one line for ``optim metrics``.
    """

    name: str
    higher_is_better: bool
    call: Callable[[Outputs, Feeds, Feeds], float | Array]
    finish: Callable[[Array], float] | None = None
    compares: Literal["labels", "original"] = "labels"
    needs_labels: bool = False
    summary: str = ""


@dataclass(frozen=True, slots=True)
class MetricFamily:
    """A metric with options: ``--metric "top-k:k=3"`` is one member of the family ``top-k``.

    Attributes:
        name: what the user writes before the colon.
        make: a function that takes an instance of ``options`` and returns the :class:`Metric`; as
            ``package.module:function`` it is imported when the metric is used, so that a listing imports no numpy.
        options: the class of its options, derived from :class:`optim.PassOptions`, or ``package.module:Class``.
        summary: one line for ``optim metrics``.
    """

    name: str
    make: str | Callable[[Any], Metric]
    options: str | type[PassOptions]
    summary: str = ""
