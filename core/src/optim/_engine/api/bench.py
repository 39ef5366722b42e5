"""``optim.bench``: models timed against each other."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING

from optim._engine.api.given import Data, MadeUp, named_data, sized_data
from optim._engine.api.request import conditions_for
from optim._engine.goals.bounds import parse_bound
from optim._engine.goals.known import find_goal
from optim._engine.goals.workload import asked_workload
from optim._engine.search.settings import RunSettings, joined_targets
from optim._engine.sources.address import fetched, quiet
from optim.errors import ExitStatus, OptimError

if TYPE_CHECKING:
    from optim._engine.reports.answers import Benchmark
    from optim._engine.runs.compare.grid_answer import GridBenchmark

_MOST_POINTS = 100
"""Of a grid; each takes seconds to prepare and to time: more is a mistake in the command."""


def bench(
    models: str | PathLike[str] | Sequence[str | PathLike[str]],
    *,
    data: Data | None = None,
    seconds: float = 20.0,
    target: str | Sequence[str] = "cpu",
    beside: Sequence[str] = (),
    component: str = "",
    seed: int = 0,
    samples: int = 0,
    sizes: Mapping[str, int] | None = None,
    mask: str = "",
    throughput: bool = False,
    max_latency_ms: float | None = None,
    generate: str | None = None,
    say: Callable[[str], None] | None = None,
) -> Benchmark:
    """Time models in turns, each in a process of its own.

    Args:
        models: one or several ``.onnx`` files, opened with the backend's defaults; run folders, opened with their
            tuned settings; or sources, which are exported. Ratios are to the first. With ``generate`` others may be
            folders of onnxruntime-genai, where that is installed.
        data: as :func:`optim.run` takes it; by default the samples of a run folder, if it knows them, else made up.
        seconds: of timing, at most.
        target: where all run; one model may be timed on several, or with ``"auto"`` on all that can be timed here.
        beside: targets that run the source of the first model itself, e.g. ``torch-eager``.
        component: of a source with several, e.g. ``decoder``.
        seed: of made-up feeds, and of the order.
        samples: how many are made up; 0: as many as usual.
        sizes: of made-up samples, by dimension, as :func:`optim.verify` takes them.
        mask: of made-up samples, as :func:`optim.verify` takes it.
        throughput: also find how each does most samples a second: batch, sessions and threads.
        max_latency_ms: what 95 of 100 of those calls must keep within.
        generate: of decoders also time a whole answer, for a prompt and an answer of so many tokens:
            ``prompt=512,new=128``.
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
    generates = generate is not None
    paths = [_path_of(fspath(model), say or quiet, generates=generates) for model in named]
    asked = _asked(paths[0], throughput=throughput, max_latency_ms=max_latency_ms, generate=generate)
    from optim._engine.runs.compare.programs import is_program, require_programs

    require_programs(paths, generate=generates)
    graphs = [path for path in paths if not is_program(path)]
    made_up = MadeUp(samples, sizes or {}, mask)
    with sized_data(paths[0], made_up, data, seed) as given, named_data(given, seed) as feeds:
        names = joined_targets(target) or "cpu"
        conditions = conditions_for(graphs, say or quiet, data=feeds, target=names, seed=seed, component=component)
        from optim._engine.runs.compare.bench import bench_models

        found = bench_models(paths, conditions, seconds=seconds, beside=beside, asked=asked)
    return found.model_copy(update={"feeds": made_up.text}) if made_up else found


def _path_of(model: str, say: Callable[[str], None], *, generates: bool) -> Path:
    """Where a model lies; where answers are timed, a folder of onnxruntime-genai is no graph, whatever else it has."""
    from optim._engine.runs.compare.programs import is_program

    return Path(model) if generates and is_program(Path(model)) else fetched(model, say)


def bench_grid(
    models: str | PathLike[str] | Sequence[str | PathLike[str]],
    grid: Mapping[str, Sequence[int]],
    *,
    seconds: float = 20.0,
    target: str = "cpu",
    seed: int = 0,
    throughput: bool = False,
    max_latency_ms: float | None = None,
    say: Callable[[str], None] | None = None,
) -> GridBenchmark:
    """Time models at every combination of sizes, on inputs that are made up in these sizes.

    Args:
        models: one or several ``.onnx`` files or run folders; ratios are to the first.
        grid: sizes by dimension: by its name in the model, or by what it counts, such as ``batch`` and ``sequence``.
        seconds: of timing at each point, at most.
        target: where all run; of one model several with commas between.
        seed: of the inputs, and of the order.
        throughput: see :func:`optim.bench`.
        max_latency_ms: see there.
        say: told what is going on, a line at a time.

    Returns:
        Each point with its models, or with the reason why the first does not run there.

    Raises:
        OptimError: a model or the target cannot be used, or no dimension has such a name.

    Example:
        >>> found = optim.bench_grid(["model.onnx", "out"], {"batch": (1, 8)})
        >>> [(point.sizes, point.models[1].latency_ratio) for point in found.points]
        [({'batch': 1}, 0.41), ({'batch': 8}, 0.38)]
    """
    said = say or quiet
    named = [models] if isinstance(models, str | PathLike) else models
    paths = [fetched(fspath(model), said) for model in named]
    points = [dict(zip(grid, sizes, strict=True)) for sizes in itertools.product(*grid.values())]
    _require_sound(paths, len(points))
    from optim._engine.runs.compare.grid_answer import GridBenchmark, GridPoint

    found = []
    for number, sizes in enumerate(points, 1):
        said(f"{' '.join(f'{name}={size}' for name, size in sizes.items())}, {number} of {len(points)}")
        try:
            timed = bench(
                paths,
                samples=1,
                sizes=sizes,
                seconds=seconds,
                target=target,
                seed=seed,
                throughput=throughput,
                max_latency_ms=max_latency_ms,
                say=say,
            )
            found.append(GridPoint(sizes=sizes, error=None, models=timed.models))
        except OptimError as error:
            if error.status is ExitStatus.USAGE and error.reference != "bad-grid":  # wrong at whatever size
                raise
            found.append(GridPoint(sizes=sizes, error=f"{error.what}: {error.cause}", models=()))
    return GridBenchmark(target=target, points=tuple(found))


def _require_sound(models: Sequence[Path], points: int) -> None:
    from optim._engine.sources.naming import needs_export

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


def _asked(first: Path, *, throughput: bool, max_latency_ms: float | None, generate: str | None = None) -> RunSettings:
    """What the clock is asked for beside latency.

    Raises:
        OptimError[bad-budget]: a limit that cannot be one.
        OptimError[bad-workload]: an answer that cannot be one.
        OptimError[conflicting-request]: a limit of nothing, or two clocks at once.
        OptimError[unknown-goal]: the plugin that has the clock is not installed.
    """
    goal = "throughput" if throughput else "latency"
    if max_latency_ms is not None and not throughput:
        raise OptimError.usage(
            "conflicting-request",
            "--max-latency needs --throughput",
            "only a benchmark of throughput trades latency for throughput",
            fix="add --throughput",
        )
    bounds = () if max_latency_ms is None else (parse_bound("latency", max_latency_ms),)
    asked = RunSettings(first, goal=goal, bounds=bounds)
    if generate is not None:
        asked = replace(asked, **asked_workload(generate, goal if throughput else None))
    asked.require_sound()
    if asked.goal != "latency":
        from optim._engine.plugins.registry import load_registry

        find_goal(load_registry(), asked.goal)
    return asked
