"""From what a run found out to its report."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, replace
from itertools import chain, repeat

from optim._engine.gate.drift import Drift, worst_question
from optim._engine.gate.max_loss import TaskFigure
from optim._engine.goals.calls import Percentiles, Throughput
from optim._engine.jobs.start_up import Ready
from optim._engine.machine import this_machine
from optim._engine.reports.outcome import Outcome
from optim._engine.reports.schema import (
    Assumption,
    BoundReport,
    BrokenPassReport,
    BudgetReport,
    DepthReport,
    DeviceReport,
    DriftReport,
    ExportReport,
    FeedsReport,
    GenerationReport,
    GoalRatioReport,
    MachineReport,
    OriginalReport,
    OutputReport,
    PointReport,
    Report,
    ResultReport,
    SearchReport,
    ShapeReport,
    SourceDriftReport,
    StartReport,
    StepReport,
    TargetReport,
    TaskReport,
    ThroughputReport,
    TriedReport,
)
from optim._engine.reports.verdict import notes, verdict
from optim._engine.reports.words import cores_text
from optim._engine.search.objective import figures_of
from optim._engine.search.rows import smallest_size
from optim._engine.search.state import Attempt, Candidate, LaneResult, Measured
from optim._engine.search.targets.entrants import TargetOutcome
from optim._engine.sources.exported import SourceDrift
from optim.after_run import Section
from optim.cli_kit.output import options_text
from optim.goal import GenerationTimes, Ratio
from optim.providers.names import CPU


def build_report(outcome: Outcome) -> Report:
    """The report of a run."""
    settings, machine = outcome.settings, _machine(outcome)
    return Report(
        status=outcome.status.value,
        reason=verdict(outcome),
        broken=tuple(_broken(outcome)),
        target=outcome.target.name,
        baseline=outcome.baseline,
        targets=tuple(map(_target, outcome.targets)),
        goal=settings.goal,
        budget=BudgetReport(
            max_drift=None if settings.lossless else settings.drift_limit,
            lossless=settings.lossless,
            metric=settings.metric.text if settings.metric else None,
            max_loss=settings.max_loss.text if settings.max_loss else None,
            max_mismatch=settings.max_mismatch,
            bounds=tuple(_bounds(outcome)),
        ),
        original=_original(outcome),
        export=_export(outcome),
        result=_result(outcome),
        nearest=_point(outcome.nearest, outcome) if outcome.nearest else None,
        points=tuple(_point(point, outcome) for point in outcome.points),
        key=outcome.key,
        steps=tuple(_step(attempt, outcome) for attempt in outcome.attempts),
        feeds=_feeds(outcome),
        tolerance=outcome.prepared.tolerance,
        device=DeviceReport(**asdict(outcome.prepared.device)) if outcome.prepared.device is not None else None,
        notes=(*notes(outcome), *_few_cores(outcome, machine)),
        checks=outcome.checks,
        machine=machine,
        layouts=outcome.layouts,
        versions=dict(sorted(outcome.versions.items())),
        seed=settings.seed,
        seconds=outcome.seconds,
        search=SearchReport(
            computed=outcome.computed,
            from_cache=outcome.from_cache,
            seconds=outcome.search_s,
            budget_seconds=outcome.announced_s,
        ),
        viewer=outcome.target.viewer,
        cached=outcome.cached,
        first_seconds=outcome.first_s if outcome.cached else None,
        sections=(*_blame_sections(outcome), *outcome.sections),
    )


def _broken(outcome: Outcome) -> Iterator[BrokenPassReport]:
    """The passes that broke, each once."""
    found: dict[str, list[Attempt]] = {}
    for attempt in outcome.attempts:
        if attempt.broke:
            found.setdefault(attempt.step.pass_name, []).append(attempt)
    for name, rows in found.items():
        plugin = rows[0].step.plugin
        distribution, version = outcome.packages.get(plugin, ("", ""))
        yield BrokenPassReport(
            pass_name=name,
            plugin=plugin,
            distribution=distribution,
            version=version,
            times=len(rows),
            error=rows[0].reason,
            fix=f"report it to the authors of {distribution or plugin}, with the traceback of that step in "
            f"report.html; --without {name} runs without the pass",
        )


def _bounds(outcome: Outcome) -> Iterator[BoundReport]:
    """Each bound with the figure of what is delivered; of the nearest if nothing is, else of the original.

    If nothing was timed, the size is that of the smallest model that was made.
    """
    original = Measured(Candidate(outcome.source.model, outcome.source.size_bytes))
    found = figures_of(outcome.result or outcome.nearest or original, outcome.original)
    if outcome.result is None and outcome.nearest is None:
        found = replace(found, size_bytes=smallest_size(outcome.attempts) or found.size_bytes)
    for bound in outcome.bounds:
        amount = bound.goal.amount(found)
        yield BoundReport(
            figure=bound.figure,
            most=bound.most,
            unit=bound.goal.unit,
            value=amount.value if amount is not None else None,
            interval=(amount.low, amount.high) if amount is not None and amount.is_sure else None,
            standing=bound.standing(found).value,
        )


def _blame_sections(outcome: Outcome) -> Iterator[Section]:
    for attempt in outcome.attempts:
        if attempt.blame is not None and attempt.blame.section is not None:
            yield attempt.blame.section


def _few_cores(outcome: Outcome, machine: MachineReport) -> tuple[str, ...]:
    """That a container or affinity left it fewer cores than the machine has: the runtime does not look at that."""
    there, target = machine.machine_cores or machine.cores, outcome.target
    has = min(machine.cores, math.ceil(machine.quota or machine.cores))
    if target.provider != CPU or target.threads or has >= there:
        return ()
    return (
        f"this process may use {cores_text(machine)}, but ONNX Runtime starts a thread for each core of the machine "
        f"unless session options say how many; --target cpu:threads={has} has it start no more",
    )


def _original(outcome: Outcome) -> OriginalReport:
    timed = outcome.original
    return OriginalReport(
        path=str(outcome.settings.source),
        digest=outcome.source.model.digest,
        latency_ms=timed.latency_ms if timed and timed.ratio else None,
        size_bytes=outcome.source.size_bytes,
        peak_memory_bytes=timed.ready.peak_memory_bytes if timed and timed.ready else None,
        operators=outcome.source.operators,
        operator_ms=outcome.operator_ms[0] if outcome.operator_ms else {},
        start=start_report(timed.ready if timed else None),
        batch=timed.ready.batch if timed and timed.ready else None,
        generation=generation_report(timed.generation if timed else None),
        throughput=throughput_report(timed.throughput if timed else None),
    )


def _export(outcome: Outcome) -> ExportReport | None:
    if not outcome.export:
        return None
    found = outcome.result.source if outcome.result is not None else None
    return ExportReport.model_validate({**outcome.export, "result_drift": _source_drift(found) if found else None})


def _source_drift(found: SourceDrift) -> SourceDriftReport:
    return SourceDriftReport(
        drift=drift_report(found.drift),
        samples=found.samples,
        trials=found.trials,
        skipped=found.skipped,
        worst=f"output '{found.output}' {found.place}" if found.output else "",
        limit=found.limit,
        note=found.note,
    )


def _result(outcome: Outcome) -> ResultReport | None:
    found = outcome.result
    if found is None:
        return None
    timed = outcome.timed
    ready = timed.ready if timed is not None else None
    return ResultReport(
        digest=found.candidate.model.digest,
        latency_ms=_latency_ms(found, outcome),
        latency_ratio=found.ratio,
        latency_ratio_ci=_interval(found.lane.ratio),
        size_bytes=found.candidate.size_bytes,
        peak_memory_bytes=found.peak_memory_bytes or None,
        executed_on=dict(outcome.timing.ready.executed_on) if outcome.timing and outcome.timing.ready else {},
        drift=drift_report(found.candidate.drift, worst_question(found.comparisons)),
        task=_task(outcome, found.candidate.task),
        operators=outcome.operators,
        operator_ms=_operator_ms(found, outcome),
        outputs=tuple(map(OutputReport.of, found.comparisons)),
        shapes=_shapes(outcome),
        loader=outcome.loader,
        start=start_report(ready),
        batch=ready.batch if ready else None,
        throughput=throughput_report(timed.throughput if timed else None),
        goal_ratio=goal_ratio_report(found.lane.goal),
        generation=generation_report(found.lane.generation),
        load_script=outcome.load_script,
        requirements=outcome.requirements,
        kernels=ready.kernels if ready else (),
    )


def _operator_ms(found: Measured, outcome: Outcome) -> dict[str, float]:
    """Of the result; the original is its own result where nothing was better."""
    times = outcome.operator_ms
    return times[-1] if len(times) == (1 if found.candidate.is_original else 2) else {}


def _interval(found: Ratio | None) -> tuple[float, float] | None:
    """Returns the interval of a ratio; None if there is no ratio, or one of too few rounds."""
    return found.interval if found is not None else None


def _shapes(outcome: Outcome) -> tuple[ShapeReport, ...]:
    if outcome.timing is None or outcome.original is None:
        return ()
    names = outcome.prepared.shapes
    if outcome.result is not None and outcome.result.candidate.recast is not None:
        names = tuple(f"raw sample {place + 1}" for place in range(len(names)))
    # what takes seconds a run is timed on the first of them only
    rows = zip(names, outcome.original.sample_ms, outcome.timing.sample_ratio, strict=False)
    return tuple(
        ShapeReport(
            shape=shape,
            original_ms=before,
            result_ms=before * ratio.value,
            ratio=ratio.value,
            ci=ratio.interval,
            original_calls=old,
            result_calls=new,
        )
        for (shape, before, ratio), old, new in zip(
            rows, _calls(outcome.original), _calls(outcome.timing), strict=False
        )
    )


def _calls(timed: LaneResult) -> Iterator[Percentiles | None]:
    """Of each timed sample; then None for ever, as nothing was kept of others."""
    return chain(timed.sample_calls, repeat(None))


def _latency_ms(found: Measured, outcome: Outcome) -> float | None:
    """The original's latency times the ratio: races are apart in time, and only ratios compare across them."""
    base = outcome.original
    recast = outcome.result is not None and outcome.result.candidate.recast is not None
    if base is None or not base.latency_ms or found.ratio is None or (found.candidate.recast is not None) is not recast:
        return found.lane.latency_ms or None
    return base.latency_ms * found.ratio


def _target(row: TargetOutcome) -> TargetReport:
    return TargetReport(
        name=row.name,
        runtime=row.target.runs_on if row.target else "",
        status=row.status.value,
        reason=row.reason,
        baseline=row.is_baseline,
        original_ratio=row.ratio,
        original_ratio_ci=row.interval,
        original_drift=drift_report(row.drift) if row.ratio is not None else None,
        best_ratio=row.best_ratio,
        versions=dict(row.versions),
    )


def _step(attempt: Attempt, outcome: Outcome) -> StepReport:
    step = attempt.step
    against = attempt.ratio / attempt.parent_ratio if attempt.ratio is not None and attempt.parent_ratio else None
    return StepReport(
        stage=step.stage.value,
        pass_name=step.pass_name,
        plugin=step.plugin,
        options=step.options,
        on=attempt.on,
        status=attempt.status.value,
        reason=attempt.why,
        ratio_to_original=attempt.ratio,
        ratio_ci=_interval(attempt.timing),
        size_bytes=attempt.size_bytes,
        ratio_to_best=against,
        drift=drift_report(attempt.drift) if attempt.drift else None,
        task_value=attempt.task.value if attempt.task else None,
        task_loss=attempt.task.loss if attempt.task else None,
        seconds=attempt.seconds,
        counts=attempt.counts,
        notes=attempt.notes,
        not_here=attempt.not_here,
        printed=attempt.printed,
        target=attempt.target or outcome.baseline,
        trace=attempt.trace,
        blame=dict(attempt.blame.details or {}) if attempt.blame else None,
    )


def _point(point: Measured, outcome: Outcome) -> PointReport:
    candidate = point.candidate
    result = outcome.result.candidate if outcome.result is not None else None
    delivered = result is not None and (result.target, result.digest) == (candidate.target, candidate.digest)
    words = ((step.pass_name, options_text(step.options)) for step in candidate.steps)
    return PointReport(
        number=point.number or None,
        chain=tuple(f"{name} ({options})" if options else name for name, options in words),
        latency_ms=_latency_ms(point, outcome),
        latency_ratio=point.ratio,
        latency_ratio_ci=_interval(point.lane.ratio),
        size_bytes=candidate.size_bytes,
        peak_memory_bytes=point.peak_memory_bytes or None,
        drift=drift_report(candidate.drift),
        task_value=candidate.task.value if candidate.task else None,
        lossy=candidate.is_lossy,
        proven=point.proven,
        within=point.within,
        delivered=delivered,
        target=candidate.target or outcome.baseline,
    )


def _task(outcome: Outcome, figure: TaskFigure | None) -> TaskReport | None:
    """The metric of the result; that of the original where the original is the result."""
    use = outcome.prepared.task
    if use is None:
        return None
    found = figure or TaskFigure(use.original, use.original, 0.0, 0.0, len(use.samples))
    return TaskReport(
        metric=use.metric.text,
        higher_is_better=use.higher_is_better,
        original=found.original,
        value=found.value,
        loss=found.loss,
        standard_error=found.error,
        samples=found.samples,
    )


def _feeds(outcome: Outcome) -> FeedsReport:
    prepared = outcome.prepared
    return FeedsReport(
        origin=prepared.origin,
        samples=prepared.available,
        held_out=prepared.held_out,
        compared=len(prepared.compared),
        assumptions=tuple(Assumption(input=name, text=text) for name, text in prepared.assumptions),
    )


def _machine(outcome: Outcome) -> MachineReport:
    """Where it was timed: here, or on a worker of a cluster."""
    known = outcome.machine or asdict(this_machine())
    return MachineReport.model_validate({**known, "device": outcome.target.hardware})


def drift_report(drift: Drift, at: str = "") -> DriftReport:
    """How far outputs are, beside what a further sample may be."""
    return DriftReport(
        relative_error=drift.relative_error,
        at=at,
        max_abs=drift.max_abs,
        cosine=drift.cosine,
        foreseen=max(drift.relative_error, drift.foreseen),
    )


def goal_ratio_report(found: Ratio | None) -> GoalRatioReport | None:
    """Returns the figures of the delivered model; None if the goal has no clock of its own."""
    return GoalRatioReport(value=found.value, ci=found.interval, rounds=found.rounds) if found else None


def start_report(ready: Ready | None) -> StartReport | None:
    """Returns the figures of a lane; None if nothing was timed."""
    start = ready.start if ready is not None else None
    if ready is None or start is None or not start.first_s:
        return None
    return StartReport(
        open_ms=1e3 * start.open_s,
        first_ms=1e3 * start.first_s[0],
        run_ms=1e3 * ready.run_s[0],
        open_memory_bytes=start.open_memory_bytes,
    )


def generation_report(found: GenerationTimes | None) -> GenerationReport | None:
    """Returns the figures of a lane; None if the goal is another."""
    if found is None:
        return None
    rows = zip(found.depths, found.token_s, found.past_bytes, strict=True)
    depths = tuple(DepthReport(tokens=n, tokens_per_s=1 / s, past_bytes=b) for n, s, b in rows)
    first, answer = 1e3 * found.first_s, 1e3 * found.seconds
    return GenerationReport(prompt=found.prompt, new=found.new, first_ms=first, answer_ms=answer, depths=depths)


def throughput_report(found: Throughput | None) -> ThroughputReport | None:
    """Returns the figures of a lane; None if throughput is not the goal."""
    if found is None:
        return None
    served = found.served
    return ThroughputReport(
        how=served.serving.text,
        **asdict(served.serving),
        samples_per_second=found.samples_per_s,
        calls_ms=found.calls,
        limit_ms=served.limit_ms,
        as_it_came=served.tried[0].samples_per_s or None,
        tried=tuple(
            TriedReport(
                how=one.serving.text,
                samples_per_second=one.samples_per_s or None,
                p95_ms=one.p95_s * 1e3 or None,
                problem=one.problem,
            )
            for one in served.tried
        ),
        note=served.note,
    )
