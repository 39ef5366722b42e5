"""What a caller hands over as ``metric=``: a name, a function of the program, or a :class:`optim.Metric`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from optim._engine.compare.metric_spec import MetricSpec, parse_metric
from optim.metric import Metric

if TYPE_CHECKING:
    from optim.arrays import Array

TaskMetric: TypeAlias = str | Metric | Callable[..., "float | Array"]
"""A name of ``optim metrics``, ``package.module:function``, a metric, or a function of outputs, labels and feeds."""


@contextmanager
def named_metric(metric: TaskMetric | None) -> Iterator[MetricSpec | None]:
    """The metric as a run names it; a function of the program can be called until the end of the context.

    Raises:
        OptimError[bad-option]: options that are no TOML.
    """
    if metric is None or isinstance(metric, str):
        yield parse_metric(metric) if metric else None
        return
    from optim._engine.compare.metric_callback import served

    with served(metric if isinstance(metric, Metric) else _of_function(metric)) as spec:
        yield spec


def _of_function(function: Callable[..., Any]) -> Metric:
    from optim._engine.compare.metric_maker import metric_of

    name = getattr(function, "__name__", type(function).__name__)
    higher = bool(getattr(function, "higher_is_better", True))
    return metric_of(function, name if name.isidentifier() else "metric", higher_is_better=higher)
