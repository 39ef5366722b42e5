"""``optim.bench``: models timed against each other."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING

from optim._engine.api.given import Data, MadeUp, named_data, sized_data
from optim._engine.api.request import require_models, settings_from
from optim._engine.goals.known import find_goal
from optim._engine.runs.folder import read_mark
from optim._engine.search.settings import RunSettings, joined_targets
from optim._engine.sources.naming import fetched, is_genai_folder, quiet
from optim.errors import ExitStatus, OptimError

if TYPE_CHECKING:
    from optim._engine.reports.answers import Benchmark, GridBenchmark

_MOST_POINTS = 100
"""Most points of a grid. Each takes seconds to prepare and to time, so more is a mistake in the command."""


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
    """Times models in turns, each in a process of its own.

    Args:
        models: one or several models: ``.onnx`` files, opened with defaults; run folders, opened with their settings;
            or sources, which optim exports. Ratios are relative to the first one. With ``generate``, later ones may be
            folders of onnxruntime-genai, if it is installed.
        data: input samples, as in ``optim.run``. By default the samples of a run folder if it has some, else
            synthesized ones.
        seconds: longest time for timing.
        target: target of all models. For one model, several targets, or ``"auto"`` for all that can be timed here.
        beside: targets that run the source of the first model itself, e.g. ``torch-eager``.
        component: component of a source that has several, e.g. ``decoder``.
        seed: random seed for synthesized samples and for the order.
        samples: number of synthesized samples; 0: the usual number.
        sizes: sizes of synthesized samples by dimension, as in ``optim.verify``.
        mask: mask of synthesized samples, as in ``optim.verify``.
        throughput: also find the batch size, sessions and threads with the most samples per second.
        max_latency_ms: time that 95 of 100 of those calls must keep.
        generate: for decoders, also time a whole answer with so many tokens of prompt and answer:
            ``prompt=512,new=128``.
        say: function that gets progress, a line at a time.

    Returns:
        Each model with its latency, ratio, size and peak memory, or with the reason why it does not run.

    Raises:
        OptimError: the first model, the samples or the target cannot be used.

    Examples:
        >>> found = optim.bench(["model.onnx", "out"])
        >>> [(timed.model, timed.latency_ratio) for timed in found.models]
        [('model.onnx', 1.0), ('out', 0.41)]
    """
    named = [models] if isinstance(models, str | PathLike) else models
    generates = generate is not None
    paths = [_path_of(fspath(model), say or quiet, generates=generates) for model in named]
    asked = _asked(paths[0], throughput=throughput, max_latency_ms=max_latency_ms, generate=generate)
    programs = [path for path in paths if _is_program(path)]
    if programs and (paths[0] in programs or not generates):
        raise OptimError.usage(
            "conflicting-request",
            f"{programs[0]} cannot be timed {'first' if generates else 'without --generate'}",
            "it is a folder of onnxruntime-genai, which answers prompts and takes no input samples",
            f"optim bench MODEL {programs[0]} --generate prompt=512,new=128",
        )
    graphs = [path for path in paths if path not in programs]
    made_up = MadeUp(samples, sizes or {}, mask)
    with sized_data(paths[0], made_up, data, seed) as given, named_data(given, seed) as feeds:
        names = joined_targets(target) or "cpu"
        require_models(graphs, feeds, names)
        from optim._engine.runs.compare.bench import bench_models

        asked = replace(asked, target=names, data=feeds, seed=seed, component=component)
        found = bench_models(graphs, asked, say or quiet, seconds=seconds, beside=beside, programs=programs)
    return found.model_copy(update={"feeds": made_up.text}) if made_up else found


def _path_of(model: str, say: Callable[[str], None], *, generates: bool) -> Path:
    """Where a model lies; where answers are timed, a folder of onnxruntime-genai is no graph, whatever else it has."""
    return Path(model) if generates and _is_program(Path(model)) else fetched(model, say)


def _is_program(path: Path) -> bool:
    """Whether a folder is onnxruntime-genai's alone; a run folder that is one too opens as a run folder."""
    return is_genai_folder(path) and read_mark(path) is None


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
    """Times models at every combination of sizes, on synthesized inputs.

    Args:
        models: one or several ``.onnx`` files or run folders. Ratios are relative to the first one.
        grid: sizes by dimension. Name a dimension as the model does, or by what it counts, such as ``batch`` and
            ``sequence``.
        seconds: longest time for timing at each point.
        target: target of all models. For one model, several with commas between.
        seed: random seed for the inputs and for the order.
        throughput: as in ``optim.bench``.
        max_latency_ms: as in ``optim.bench``.
        say: function that gets progress, a line at a time.

    Returns:
        Each point with its models, or with the reason why the first model does not run there.

    Raises:
        OptimError: a model or the target cannot be used, or no dimension has such a name.

    Examples:
        >>> found = optim.bench_grid(["model.onnx", "out"], {"batch": (1, 8)})
        >>> [(point.sizes, point.models[1].latency_ratio) for point in found.points]
        [({'batch': 1}, 0.41), ({'batch': 8}, 0.38)]
    """
    said = say or quiet
    named = [models] if isinstance(models, str | PathLike) else models
    paths = [fetched(fspath(model), said) for model in named]
    points = [dict(zip(grid, sizes, strict=True)) for sizes in itertools.product(*grid.values())]
    _require_sound(paths, len(points))
    from optim._engine.reports.answers import GridBenchmark, GridPoint

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
    if max_latency_ms is not None and not throughput:
        raise OptimError.usage(
            "conflicting-request",
            "--max-latency needs --throughput",
            "only a benchmark of throughput trades latency for throughput",
            fix="add --throughput",
        )
    goal = "throughput" if throughput else "latency" if generate is None else None
    words = {"goal": goal, "generate": generate, "max_latency_ms": max_latency_ms}
    asked, _ = settings_from(first, None, None, words, trust_code=True)
    asked.require_sound()
    if asked.goal != "latency":
        from optim._engine.plugins.registry import load_registry

        find_goal(load_registry(), asked.goal)
    return asked
