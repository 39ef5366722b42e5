"""How a job measures the task metric: of the original once, of a candidate beside it, from counts of each sample."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optim._engine.compare.metric_spec import MetricSpec
from optim._engine.compare.metrics import find_metric, metric_digest
from optim._engine.compare.place import Reference, TaskUse, mapped_feeds, mapped_outputs, spread_of
from optim._engine.feeds.feedset import FeedSet
from optim._engine.feeds.sources import without_torch
from optim._engine.gate.budget import MaxLoss, TaskFigure
from optim.arrays import Feeds, Outputs
from optim.backend import Session
from optim.errors import OptimError
from optim.jobs.doing import doing
from optim.metric import CannotJudge, Metric
from optim.passes import Interface

_EXPLORE_S, _WHOLE_S = 1.5, 6.0
_LEAST_EXPLORED, _MOST = 32, 4096


def measure_original(
    spec: MetricSpec,
    limit: MaxLoss | None,
    session: Session,
    reference: Reference,
    run_s: float,
    rows: Path,
    *,
    within_s: float | None = None,
) -> tuple[TaskUse, list[str]]:
    """Measure the original's own value, on as many samples as there is time for.

    Args:
        spec: the metric.
        limit: how much worse it may get, where the user said so.
        session: of the original.
        reference: its outputs and feeds.
        run_s: how long one run takes, in seconds.
        rows: where to keep what was counted on each sample, ``.npy``.
        within_s: bound of the time for it, in seconds; None: none.

    Returns:
        What candidates are measured on, and notes for the report.

    Raises:
        OptimError: those of :func:`~optim._engine.compare.metrics.find_metric`; metric-is-zero, bad-budget.
    """
    metric = find_metric(spec)
    feeds = reference.feed_set()
    available = reference.compared if metric.compares == "original" else tuple(range(len(feeds)))
    least = _LEAST_EXPLORED if within_s is None else min(_LEAST_EXPLORED, int(within_s / max(run_s, 1e-6)))
    samples = tuple(sorted(spread_of(available, max(1, len(reference.compared), _affordable(run_s, _WHOLE_S, least)))))
    counted = count(metric, samples, lambda i: _of_original(session, reference, i), _labels(metric.compares, reference))
    value = value_of(metric, counted)
    if limit is not None and limit.relative and value == 0:
        raise OptimError(
            "metric-is-zero",
            f"--max-loss cannot be a share: metric {metric.name} of the original is 0",
            f"--max-loss {limit.text} is a share of the original's value",
            "give an amount in the metric's own unit: --max-loss 0.01",
        )
    if limit is not None:
        _require_a_bound(metric, limit, value)
    np.save(rows, counted)
    explored = spread_of(samples, max(1, _affordable(run_s, _EXPLORE_S, least)))
    notes = []
    if len(samples) == 1:
        batch = max(
            (len(label) for label in reference.feed_set().sample_labels(samples[0]).values() if label.ndim), default=1
        )
        single = f"batch of {batch}" if batch > 1 else "sample"
        notes.append(f"{metric.name} is measured on a single {single}; give more with --data")
    elif len(samples) < len(feeds):
        notes.append(f"{metric.name} is measured on {len(samples)} of {len(feeds)} samples, spread evenly")
    if limit is not None and metric.compares == "labels":
        notes += _too_few_labels(metric, limit, value, [reference.feed_set().sample_labels(i) for i in samples])
    use = TaskUse(spec, metric.higher_is_better, samples, explored, value, rows, metric_digest(spec))
    return use, notes


def _too_few_labels(metric: Metric, limit: MaxLoss, value: float, labels: Sequence[Feeds]) -> list[str]:
    """A note if one answer weighs more in the metric than the accepted loss; empty if not."""
    answers = sum(max((len(one) if one.ndim else 1 for one in sample.values()), default=0) for sample in labels)
    if not 0 < answers * limit.allowed(value) < abs(value):
        return []
    return [
        f"--max-loss {limit.text} cannot be judged with {answers} labels: one answer is about {1 / answers:.2g} of "
        f"{metric.name}, so 'no loss' only covers these answers; give more labels, or add --max-drift"
    ]


def _require_a_bound(metric: Metric, limit: MaxLoss, value: float) -> None:
    """Refuse a loss that bounds nothing, such as all of a share: 1 is meant as a per cent of it.

    Raises:
        OptimError[bad-budget]: it is as much as all of the metric, or as all of a figure between 0 and 1.
    """
    allowed = limit.allowed(value)
    is_all = metric.higher_is_better and 0 < value <= allowed
    if is_all or (not limit.relative and allowed >= 1 >= abs(value)):
        raise OptimError.usage(
            "bad-budget",
            f"--max-loss {limit.text} allows any loss: metric {metric.name} of the original is {value:.4g}",
            "a number is an amount in the metric's own unit; with % it is a share of the original's value",
            "--max-loss 1%, or --max-loss 0.01",
        )


def measure_task(
    session: Session, reference: Reference, interfaces: Sequence[Interface], *, everything: bool
) -> TaskFigure:
    """The metric of a candidate beside the original's on the same samples, in a run that has a metric.

    Raises:
        OptimError: metric-failed, metric-nonsense.
    """
    use = reference.task
    assert use is not None
    metric, feeds = find_metric(use.metric), reference.feed_set()
    samples = use.samples if everything else use.explored

    def outputs_of(sample: int) -> tuple[Outputs, Feeds]:
        with doing(feeds.name_of(sample)):
            given = feeds.sample(sample)
            return mapped_outputs(session.run(mapped_feeds(given, interfaces)), interfaces), given

    own = count(metric, samples, outputs_of, _labels(metric.compares, reference))
    places = {sample: place for place, sample in enumerate(use.samples)}
    return compared(metric, np.load(use.rows)[[places[sample] for sample in samples]], own)


def _of_original(session: Session, reference: Reference, sample: int) -> tuple[Outputs, Feeds]:
    """Returns the original's outputs and feeds; what is on disk already is not computed again."""
    known = reference.feed_set()
    feeds = known.sample(sample)
    if sample in reference.compared:
        return reference.expected(sample), feeds
    with doing(known.name_of(sample)):
        return session.run(feeds), feeds


def _labels(compares: str, reference: Reference) -> Callable[[int], Feeds]:
    """Returns what a metric compares outputs with: the original's outputs, or labels among the feeds."""
    return reference.expected if compares == "original" else FeedSet.open(reference.feeds).sample_labels


def _affordable(run_s: float, seconds: float, least: int) -> int:
    return max(least, min(_MOST, int(seconds / max(run_s, 1e-6))))


Rows = NDArray[np.float64]
"""Counts, shape (samples, counts)."""


def count(
    metric: Metric,
    samples: Sequence[int],
    outputs_of: Callable[[int], tuple[Outputs, Feeds]],
    labels_of: Callable[[int], Feeds],
) -> Rows:
    """Ask the metric about every sample.

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
