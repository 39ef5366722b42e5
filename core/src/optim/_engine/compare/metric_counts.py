"""A metric over samples: counts of each, their value together, and how sure a difference is."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optim._engine.feeds.sources import without_torch
from optim._engine.gate.task import TaskFigure
from optim.arrays import Feeds, Outputs
from optim.errors import OptimError
from optim.metric import CannotJudge, Metric

Rows = NDArray[np.float64]
"""Counts, shape (samples, counts)."""


def count(
    metric: Metric,
    samples: Sequence[int],
    outputs_of: Callable[[int], tuple[Outputs, Feeds]],
    labels_of: Callable[[int], Feeds],
) -> Rows:
    """Ask the metric about every sample.

    Args:
        metric: what is asked.
        samples: their numbers.
        outputs_of: outputs and feeds of a sample.
        labels_of: what the metric compares with.

    Returns:
        A row for each sample: its counts, or its value and 1.

    Raises:
        OptimError[metric-needs-labels]: a sample has none, and the metric needs them.
        OptimError[metric-failed]: it raised.
        OptimError[metric-nonsense]: it returned something else than finite numbers.
    """
    rows: list[Rows] = []
    for sample in samples:
        labels = labels_of(sample)
        if metric.needs_labels and not labels:
            raise OptimError(
                "metric-needs-labels",
                f"metric {metric.name} needs labels",
                f"sample {sample} of the data has none",
                "put them into the samples under names that begin with 'label'; cosine and token-agreement need none",
            )
        outputs, feeds = outputs_of(sample)
        try:
            found = metric.call(outputs, feeds, labels)
        except OptimError:
            raise
        except CannotJudge as reason:
            raise OptimError(
                "metric-failed",
                f"metric {metric.name} cannot judge sample {sample}",
                str(reason),
                "optim metrics lists its options; optim inspect MODEL lists the outputs",
            ) from reason
        except Exception as error:
            raise OptimError(
                "metric-failed",
                f"metric {metric.name} failed on sample {sample}",
                f"{type(error).__name__}: {error}",
                "call it by hand with the model's outputs on that sample",
            ) from error
        rows.append(_row(metric, found, sample, rows))
    return np.stack(rows)


def value_of(metric: Metric, rows: Rows) -> float:
    """The metric over these samples together.

    Raises:
        OptimError[metric-nonsense]: it is no finite number, e.g. where nothing was counted.
    """
    value = _finished(metric, rows.sum(0))
    if not math.isfinite(value):
        raise OptimError(
            "metric-nonsense",
            f"metric {metric.name} has no value",
            f"over {len(rows)} samples it is {value}",
            "check the labels and outputs against optim metrics",
        )
    return value


def compared(metric: Metric, original: Rows, candidate: Rows) -> TaskFigure:
    """The metric of a candidate beside the original's on the same samples.

    The standard error of the loss is by the jackknife (Efron and Stein 1981): every sample left out once.

    Raises:
        OptimError[metric-nonsense]: one of them is no finite number.
    """
    sign = 1.0 if metric.higher_is_better else -1.0
    before, after = value_of(metric, original), value_of(metric, candidate)
    left_out = [
        sign * (_finished(metric, a) - _finished(metric, b))
        for a, b in zip(original.sum(0) - original, candidate.sum(0) - candidate, strict=True)
    ]
    finite = np.array([loss for loss in left_out if math.isfinite(loss)])
    many = len(finite)
    error = math.sqrt((many - 1) / many * float(((finite - finite.mean()) ** 2).sum())) if many > 1 else None
    return TaskFigure(after, before, sign * (before - after), error, len(original))


def _finished(metric: Metric, sums: Rows) -> float:
    if metric.finish is None:
        return float(sums[0] / sums[1]) if sums[1] else math.nan
    with np.errstate(all="ignore"):
        return float(metric.finish(sums))


def _row(metric: Metric, found: Any, sample: int, before: Sequence[Rows]) -> Rows:
    """Returns what the metric returned, as a row as long as the others."""
    if found is None or isinstance(found, str | bytes):
        raise _nonsense(metric, sample, f"{_short(found)}, which is not a number")
    try:
        array = np.asarray(without_torch(found), np.float64)
        row = np.array([float(array.item()), 1.0]) if metric.finish is None else np.atleast_1d(array).ravel()
    except (TypeError, ValueError):
        raise _nonsense(metric, sample, f"{_short(found)}, which is not a number") from None
    if not np.isfinite(row).all():
        raise _nonsense(metric, sample, _short(found))
    if before and len(row) != len(before[0]):
        raise _nonsense(metric, sample, f"{len(row)} counts, and {len(before[0])} on the sample before")
    return row


def _nonsense(metric: Metric, sample: int, returned: str) -> OptimError:
    wanted = "finite numbers" if metric.finish else "one finite number"
    return OptimError(
        "metric-nonsense",
        f"metric {metric.name} returned no valid value on sample {sample}",
        f"it returned {returned}",
        f"it must return {wanted} for every sample",
    )


def _short(value: object) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{type(value).__name__} {text[:50]}..."
