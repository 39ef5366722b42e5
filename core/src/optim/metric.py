"""Task metrics: what a user needs from a model, such as its accuracy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from optim.arrays import Array, Feeds, Outputs

if TYPE_CHECKING:
    from optim.options import PassOptions


class CannotJudge(Exception):  # noqa: N818 - it states why a metric has no value
    """Raised by ``Metric.call`` if a sample is not what the metric needs. The message says why."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A task metric, such as accuracy, cosine of embeddings, or word error rate.

    Some metrics are not averages over samples: F1, perplexity, word error rate. For these, ``call`` returns counts,
    optim adds the counts of all samples, and ``finish`` computes the value.

    Attributes:
        name: name, as the user writes it.
        higher_is_better: whether a higher value is better.
        call: judges one sample: ``call(outputs, feeds, labels)``. Returns a number, which optim averages; with
            ``finish``, an array of counts of the same length for every sample.
        finish: computes the value from the added counts; None if ``call`` returns the value itself.
        compares: what ``call`` gets as labels: labels from the samples, or outputs of the original model.
        needs_labels: whether the metric cannot judge a sample without labels.
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
    """A metric with options: ``--metric "top-k:k=3"`` is a member of the family ``top-k``.

    Attributes:
        name: name before the colon.
        make: function that takes an instance of ``options`` and returns the ``Metric``. Give it as
            ``package.module:function``, so that a listing imports no numpy.
        options: class of the options, derived from ``optim.PassOptions``, or ``package.module:Class``.
        summary: one line for ``optim metrics``.
    """

    name: str
    make: str | Callable[[Any], Metric]
    options: str | type[PassOptions]
    summary: str = ""
