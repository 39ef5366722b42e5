"""Several models, or one on several targets, timed against each other."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, repeat
from pathlib import Path

from optim._engine.compare.place import Place
from optim._engine.goals.generating import GENERATE, GENERATOR
from optim._engine.jobs import prepare
from optim._engine.jobs.lane import LaneClock
from optim._engine.plugins.chosen_targets import ChosenTargets, choose_targets
from optim._engine.plugins.registry import Registry, load_registry, require_target
from optim._engine.reports.answers import Benchmark, TimedModel, TimedShape
from optim._engine.reports.build import generation_report, goal_ratio_report, throughput_report
from optim._engine.runs.compare.prepared import Say, about_made_up, other_model, require_timed, workbench_for
from optim._engine.search.measure.race_job import Effort
from optim._engine.search.measure.racing import Races, Wanted
from optim._engine.search.settings import RunSettings
from optim._engine.search.state import Candidate, LaneResult
from optim._engine.search.targets.entrants import none_runs
from optim._engine.search.workbench import Workbench
from optim.errors import ExitStatus, OptimError
from optim.goal import GoalRequest
from optim.jobs.wire import to_wire
from optim.providers.names import CPU
from optim.target import Target


def bench_models(
    models: Sequence[Path],
    asked: RunSettings,
    say: Say,
    *,
    seconds: float = 20.0,
    beside: Sequence[str] = (),
    programs: Sequence[Path] = (),
) -> Benchmark:
    """Time models in lock-step, each in a process of its own.

    Args:
        models: ``.onnx`` files, run folders, or sources, which are exported; ratios are to the first.
        asked: target, samples, seed and component; and a goal, whose own clock has its turn in each round too.
        say: gets progress, a line at a time.
        seconds: of racing, at most.
        beside: targets that run the source of the first model itself, e.g. ``torch-eager``.
        programs: folders of onnxruntime-genai, whose answers are timed too.

    Raises:
        OptimError[not-timed]: time means nothing on the target.
        OptimError[conflicting-request]: several models on several targets.
        OptimError[not-a-source]: ``beside`` is given, and the first model was not exported from anything.
        OptimError: a model or the feeds cannot be used.
    """
    registry, component = load_registry(), asked.component
    chosen = choose_targets(registry, asked.target)
    if len(chosen.targets) > 1 or (chosen.absent and not chosen.auto):
        _require_one_model([*models, *programs], beside, asked.target)
        return _bench_targets(models[0], asked, say, chosen, seconds)
    target = chosen.targets[0].name
    asked = replace(asked, target=target)
    require_timed(chosen.targets[0])
    peers = [require_target(registry, name, beside=True) for name in beside]  # before anything is exported
    clocks = tuple(clock_of_program(registry, path, asked.goal_request) for path in programs)
    with workbench_for(models[0], asked, say, models[1:]) as (bench, first):
        candidates = [other_model(bench, path, component) for path in models[1:]]
        _say_threads(bench, models, [first, *candidates])
        bench.original, bench.baseline = first, bench.places.get(first.target, bench.place)
        lanes = [_source_place(bench, peer, models[0], component) for peer in peers]
        names = [*map(str, models), *beside, *map(str, programs)]
        bench.say(f"timing {len(names)} model{'s' if len(names) > 1 else ''}")
        effort = Effort(seconds, width=0.01, drop=False)
        wanted = Wanted(places=tuple(lanes), programs=clocks)
        base, results = Races(bench).race(candidates, effort, wanted)
        sizes = [*(one.size_bytes for one in (first, *candidates)), *[0] * len(lanes), *map(_size_of_program, programs)]
        timed = [
            _timed_model(name, size, result, bench.prepared)
            for name, size, result in zip(names, sizes, (base, *results), strict=True)
        ]
        timed[len(timed) - len(programs) :] = map(_answers_only, timed[len(timed) - len(programs) :])
        return Benchmark(target=target, feeds=_feeds_text(bench, models), models=tuple(timed))


def clock_of_program(registry: Registry, path: Path, asked: GoalRequest) -> LaneClock:
    """Returns the clock that times the answers of a program that drives its own model.

    Raises:
        OptimError[runtime-missing]: that program is not installed.
        OptimError[plugin-missing]: no plugin times it.
    """
    generator = registry.part(GENERATOR, f"answers of {path} cannot be timed")
    return LaneClock.of(GENERATE, generator.program_clock(path, asked))


def _size_of_program(path: Path) -> int:
    """Bytes of its graph and weights."""
    return sum(file.stat().st_size for file in path.iterdir() if file.name.endswith((".onnx", ".data")))


def _answers_only(timed: TimedModel) -> TimedModel:
    """The figures of its lane without those of the model that the lane has open."""
    unknown = {"latency_ms": None, "latency_ratio": None, "latency_ratio_ci": None, "peak_memory_bytes": None}
    return timed.model_copy(update={**unknown, "shapes": ()})


def _feeds_text(bench: Workbench, models: Sequence[Path]) -> str:
    """Where feeds came from, and what they leave open of the run folders among the models."""
    about = about_made_up(models) if bench.settings.data is None else ""
    return "; ".join(filter(None, [bench.prepared.origin, about]))


def _say_threads(bench: Workbench, paths: Sequence[Path], models: Sequence[Candidate]) -> None:
    """Say where a run folder was made for fewer threads than the first model would have: that is no fair race."""
    if bench.target.made_for != CPU:
        return
    first, *others = [bench.target.within_threads(one.model.session).threads for one in models]
    for path, one, own in zip(paths[1:], models[1:], others, strict=True):
        if own != first and not one.target:
            bench.say(
                f"{path} has {_threads(own)} by its session.json, {paths[0]} {_threads(first)}; "
                f"--target cpu:threads={own or first} gives both at most {own or first}"
            )


def _threads(count: int) -> str:
    return f"{count} thread{'s' * (count > 1)}" if count else "as many threads as onnxruntime takes"


def _require_one_model(models: Sequence[Path], beside: Sequence[str], target: str) -> None:
    if len(models) > 1 or beside:
        raise OptimError.usage(
            "conflicting-request",
            f"--target {target} names several targets, and there is more than one model",
            "optim bench times one model on several targets, or several models on one target",
            "name one model, or one target",
        )


def _bench_targets(model: Path, asked: RunSettings, say: Say, chosen: ChosenTargets, seconds: float) -> Benchmark:
    """Time one model on several targets in lock-step; ratios are to the first that runs it.

    Raises:
        OptimError[no-target-runs]: none of them does.
    """
    failed: dict[str, OptimError] = {}
    for number, target in enumerate(chosen.targets):
        try:
            with workbench_for(model, replace(asked, target=target.name), say) as (bench, original):
                bench.original = original
                timed = _timed_on(bench, chosen.targets[number:], seconds)
                feeds = _feeds_text(bench, [model])
        except OptimError as error:
            failed[target.name] = error
            continue
        why_not = [
            (name, f"{error.what}: {error.cause}", error.status is ExitStatus.TARGET_UNAVAILABLE)
            for name, error in failed.items()
        ]
        why_not += [(name, why, True) for name, why in ({} if chosen.auto else chosen.absent).items()]
        rows = [TimedModel(model=str(model), target=name, error=why, not_here=away) for name, why, away in why_not]
        names = ",".join(one.name for one in chosen.targets)
        return Benchmark(target=names, feeds=feeds, models=(*timed, *rows))
    raise none_runs(failed, chosen)


def _timed_on(bench: Workbench, targets: Sequence[Target], seconds: float) -> list[TimedModel]:
    """The original of a workbench on its own target, which is the first, and on others."""
    bench.say(f"timing the model on {len(targets)} target{'s' if len(targets) > 1 else ''}")
    effort = Effort(seconds, width=0.01, drop=False)
    places = tuple(map(bench.place_of, targets[1:]))
    base, others = Races(bench).race([], effort, Wanted(places=places))
    source, stored, size = bench.settings.source, bench.original.model.path.name, bench.original.size_bytes
    others = [replace(result, failure=result.failure.replace(stored, source.name)) for result in others]
    return [
        _timed_model(str(source), size, result, bench.prepared).model_copy(update={"target": target.name})
        for target, result in zip(targets, (base, *others), strict=True)
    ]


def _timed_model(name: str, size_bytes: int, result: LaneResult, prepared: prepare.Answer) -> TimedModel:
    ratio, ready = result.ratio, result.ready
    return TimedModel(
        model=name,
        error=result.failure or None,
        latency_ms=result.latency_ms or None,
        size_bytes=size_bytes or None,
        peak_memory_bytes=ready.peak_memory_bytes if ready else None,
        latency_ratio=ratio.value if ratio else None,
        latency_ratio_ci=ratio.interval if ratio else None,
        rounds=ratio.rounds if ratio else 0,
        shapes=tuple(
            TimedShape(shape=shape, latency_ms=ms, ratio=each.value, ci=each.interval, calls_ms=calls)
            for shape, ms, each, calls in zip(
                prepared.shapes,
                result.sample_ms,
                result.sample_ratio,
                chain(result.sample_calls, repeat(None)),
                strict=False,
            )
        ),
        throughput=throughput_report(result.throughput),
        generation=generation_report(result.generation),
        answer_ratio=goal_ratio_report(result.goal) if result.generation else None,
    )


def _source_place(bench: Workbench, target: Target, model: Path, component: str) -> Place:
    """Where the source of the first model itself is run: its backend is told which source that is."""
    if bench.settings.export is None:
        raise OptimError.usage(
            "not-a-source",
            f"{target.name} cannot run {model}",
            "it is an ONNX model, and no module of torch",
            "name the Hugging Face folder or the factory first",
        )
    told = {"source": json.dumps(to_wire(bench.settings.export)), "component": component}
    plugin = bench.registry.offered("backend")[target.backend].plugin.name
    plain, options = target.plain, {**target.provider_options, **told}
    return Place(replace(plain, provider_options=options, threads=plain.threads or bench.target.threads), plugin)
