"""Models timed on every combination of sizes that the user names."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from optim._engine.feeds.archives import write_archive
from optim._engine.feeds.grid import sized_feeds
from optim._engine.runs.compare.conditions import Conditions, resolve
from optim._engine.sources.naming import needs_export
from optim.errors import ExitStatus, OptimError
from optim.onnx.files import describe_model

if TYPE_CHECKING:
    from optim._engine.reports.answers import Benchmark
    from optim._engine.runs.compare.grid_answer import GridBenchmark

_MOST_POINTS = 100
"""Each takes seconds to prepare and to time: more is a mistake in the command."""

Bench = Callable[[Sequence[Path], Conditions], "Benchmark"]


def bench_grid(
    models: Sequence[Path], conditions: Conditions, grid: Mapping[str, Sequence[int]], bench: Bench
) -> GridBenchmark:
    """Time models at each point of a grid.

    Args:
        models: ``.onnx`` files or run folders; ratios are to the first.
        conditions: under which all run; the feeds are made for each point.
        grid: sizes by dimension.
        bench: times models under conditions.

    Returns:
        What was found at each point; a point that the first model refuses has the reason.

    Raises:
        OptimError[unknown-dimension]: the first model has no such dimension that is free.
        OptimError[bad-grid]: more points than are sensible.
        OptimError[conflicting-request]: a model has to be exported first, or two names are of one size.
        OptimError: the command is wrong at whatever size.
    """
    from optim._engine.runs.compare.grid_answer import GridBenchmark, GridPoint

    points = [dict(zip(grid, sizes, strict=True)) for sizes in itertools.product(*grid.values())]
    _require_sound(models, len(points))
    first = describe_model(resolve(models[0])[0])
    found = []
    for number, sizes in enumerate(points, 1):
        text = " ".join(f"{name}={size}" for name, size in sizes.items())
        conditions.say(f"{text}, {number} of {len(points)}")
        try:
            with tempfile.TemporaryDirectory(prefix="optim-grid-") as folder:
                path = Path(folder) / "feeds.npz"
                write_archive(path, sized_feeds(first, sizes, conditions.seed))
                timed = bench(models, replace(conditions, data=str(path)))
            found.append(GridPoint(sizes=sizes, error=None, models=timed.models))
        except OptimError as error:
            if error.status is ExitStatus.USAGE and error.reference != "bad-grid":  # wrong at whatever size
                raise
            found.append(GridPoint(sizes=sizes, error=f"{error.what}: {error.cause}", models=()))
    return GridBenchmark(target=conditions.target, points=tuple(found))


def _require_sound(models: Sequence[Path], points: int) -> None:
    if points > _MOST_POINTS:
        raise OptimError.usage(
            "bad-grid",
            f"--grid has {points} points",
            f"at most {_MOST_POINTS} are timed in one command",
            "name fewer sizes",
        )
    source = next((str(model) for model in models if needs_export(str(model))), "")
    if source:
        raise OptimError.usage(
            "conflicting-request",
            f"{source} has to be exported before a grid",
            "it would be exported for each point",
            f"optim export {source} -o exported",
        )
