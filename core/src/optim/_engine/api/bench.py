"""``optim.bench``: models timed against each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING

from optim._engine.api.given import Data, named_data
from optim._engine.api.request import require_models
from optim._engine.search.settings import joined_targets

if TYPE_CHECKING:
    from optim._engine.reports.answers import Benchmark


def bench(
    models: str | PathLike[str] | Sequence[str | PathLike[str]],
    *,
    data: Data | None = None,
    seconds: float = 20.0,
    target: str | Sequence[str] = "cpu",
    beside: Sequence[str] = (),
    component: str = "",
    seed: int = 0,
    say: Callable[[str], None] | None = None,
) -> Benchmark:
    """Time models in turns, each in a process of its own.

    Args:
        models: one or several ``.onnx`` files, opened with the backend's defaults; run folders, opened with their
            tuned settings; or sources, which are exported. Ratios are to the first.
        data: as :func:`optim.run` takes it; by default made up.
        seconds: of timing, at most.
        target: where all run; one model may be timed on several, or with ``"auto"`` on all that can be timed here.
        beside: targets that run the source of the first model itself, e.g. ``torch-eager``.
        component: of a source with several, e.g. ``decoder``.
        seed: of made-up feeds, and of the order.
        say: told what is going on, a line at a time.

    Returns:
        Each model with its latency, ratio, size and peak memory, or with the reason why it does not run.

    Raises:
        OptimError: the first model, the feeds or the target cannot be used.

    Example:
        >>> found = optim.bench(["model.onnx", "out"])
        >>> [(timed.model, timed.latency_ratio) for timed in found.models]
        [('model.onnx', 1.0), ('out', 0.41)]
    """
    named = [models] if isinstance(models, str | PathLike) else models
    paths = [Path(fspath(model)) for model in named]
    with named_data(data, seed) as feeds:
        names = joined_targets(target) or "cpu"
        require_models(paths, feeds, names)
        from optim.jobs.process import expect_workers

        expect_workers()  # they import what this process goes on to import, meanwhile
        from optim._engine.plugins.registry import load_registry
        from optim._engine.runs.compare.bench import bench_models
        from optim._engine.runs.compare.conditions import Conditions
        from optim._engine.store import Store

        conditions = Conditions(
            load_registry(),
            Store(),
            say or (lambda text: None),
            data=feeds,
            target=names,
            seed=seed,
            component=component,
        )
        return bench_models(paths, conditions, seconds=seconds, beside=beside)
