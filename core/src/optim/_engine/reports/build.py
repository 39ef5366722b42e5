"""From what a run found out to its report."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, replace
from itertools import repeat

from optim._engine.gate.budget import TaskFigure
from optim._engine.gate.drift import Drift, worst_question
from optim._engine.goals.calls import Throughput
from optim._engine.jobs.start_up import Ready
from optim._engine.machine import this_machine
from optim._engine.reports import schema
from optim._engine.reports.outcome import Outcome
from optim._engine.reports.verdict import notes, verdict
from optim._engine.reports.words import cores_text
from optim._engine.search.objective import figures_of
from optim._engine.search.rows import smallest_size
from optim._engine.search.state import Attempt, Candidate, Measured
from optim._engine.search.targets.entrants import TargetOutcome
from optim.cli_kit.output import options_text
from optim.goal import GenerationTimes, Ratio
from optim.providers.names import CPU


def build_report(outcome: Outcome) -> schema.Report:
    """The report of a run."""
    settings, prepared, where = outcome.settings, outcome.prepared, outcome.machine or asdict(this_machine())
    machine = schema.MachineReport.model_validate({**where, "device": outcome.target.hardware})
    blamed = (attempt.blame.section for attempt in outcome.attempts if attempt.blame is not None)
    return schema.Report.of(
        outcome,
        status=outcome.status.value,
        reason=verdict(outcome),
        broken=tuple(_broken(outcome)),
        target=outcome.target.name,
        targets=tuple(map(_target, outcome.targets)),
        goal=settings.goal,
        budget=schema.BudgetReport.of(
            settings,
            max_drift=None if settings.lossless else settings.drift_limit,
            metric=settings.metric.text if settings.metric else None,
            max_loss=settings.max_loss.text if settings.max_loss else None,
            bounds=tuple(_bounds(outcome)),
        ),
        original=_original(outcome),
        export=_export(outcome),
        result=_result(outcome),
        nearest=_point(outcome.nearest, outcome) if outcome.nearest else None,
        points=tuple(_point(point, outcome) for point in outcome.points),
        steps=tuple(_step(attempt, outcome) for attempt in outcome.attempts),
        feeds=schema.FeedsReport.of(
            prepared,
            samples=prepared.available,
            compared=len(prepared.compared),
            assumptions=tuple(schema.Assumption(input=name, text=text) for name, text in prepared.assumptions),
        ),
        tolerance=prepared.tolerance,
        device=schema.DeviceReport.of(prepared.device) if prepared.device is not None else None,
        notes=(*notes(outcome), *_few_cores(outcome, machine)),
        machine=machine,
        versions=dict(sorted(outcome.versions.items())),
        seed=settings.seed,
        search=schema.SearchReport.of(outcome, seconds=outcome.search_s, budget_seconds=outcome.announced_s),
        viewer=outcome.target.viewer,
        cached=outcome.first_s is not None,
        first_seconds=outcome.first_s,
        sections=(*filter(None, blamed), *outcome.sections),
    )


def _broken(outcome: Outcome) -> Iterator[schema.BrokenPassReport]:
    """The passes that broke, each once."""
    found: dict[str, list[Attempt]] = {}
    for attempt in outcome.attempts:
        if attempt.broke:
            found.setdefault(attempt.step.pass_name, []).append(attempt)
    for name, rows in found.items():
        plugin = rows[0].step.plugin
        distribution, version = outcome.packages.get(plugin, ("", ""))
        yield schema.BrokenPassReport(
            pass_name=name,
            plugin=plugin,
            distribution=distribution,
            version=version,
            times=len(rows),
            error=rows[0].reason,
            fix=f"report it to the authors of {distribution or plugin}, with the traceback of that step in "
            f"report.html; --without {name} runs without the pass",
        )


def _bounds(outcome: Outcome) -> Iterator[schema.BoundReport]:
    """Each bound with the figure of what is delivered; of the nearest if nothing is, else of the original.

    If nothing was timed, the size is that of the smallest model that was made.
    """
    original = Measured(Candidate(outcome.source.model, outcome.source.size_bytes))
    found = figures_of(outcome.result or outcome.nearest or original, outcome.original)
    if outcome.result is None and outcome.nearest is None:
        found = replace(found, size_bytes=smallest_size(outcome.attempts) or found.size_bytes)
    for bound in outcome.bounds:
        amount = bound.goal.amount(found)
        yield schema.BoundReport.of(
            bound,
            unit=bound.goal.unit,
            value=amount.value if amount is not None else None,
            interval=(amount.low, amount.high) if amount is not None and amount.is_sure else None,
            standing=bound.standing(found).value,
        )


def _few_cores(outcome: Outcome, machine: schema.MachineReport) -> tuple[str, ...]:
    """That a container or affinity left it fewer cores than the machine has: the runtime does not look at that."""
    there, target = machine.machine_cores or machine.cores, outcome.target
    has = min(machine.cores, math.ceil(machine.quota or machine.cores))
    if target.provider != CPU or target.threads or has >= there:
        return ()
    return (
        f"this process may use {cores_text(machine)}, but ONNX Runtime starts a thread for each core of the machine "
        f"unless session options say how many; --target cpu:threads={has} has it start no more",
    )


def _original(outcome: Outcome) -> schema.OriginalReport:
    timed = outcome.original
    ready = timed.ready if timed else None
    return schema.OriginalReport.of(
        outcome.source,
        ready,
        path=str(outcome.settings.source),
        digest=outcome.source.model.digest,
        latency_ms=timed.latency_ms if timed and timed.ratio else None,
        peak_memory_bytes=ready.peak_memory_bytes if ready else None,
        operator_ms=outcome.operator_ms[0] if outcome.operator_ms else {},
        start=_start(ready),
        generation=generation_report(timed.generation if timed else None),
        throughput=throughput_report(timed.throughput if timed else None),
    )


def _export(outcome: Outcome) -> schema.ExportReport | None:
    if not outcome.export:
        return None
    found = outcome.result.source if outcome.result is not None else None
    result_drift = None
    if found is not None:
        worst = f"output '{found.output}' {found.place}" if found.output else ""
        result_drift = schema.SourceDriftReport.of(found, drift=drift_report(found.drift), worst=worst)
    return schema.ExportReport.model_validate({**outcome.export, "result_drift": result_drift})


def _result(outcome: Outcome) -> schema.ResultReport | None:
    found = outcome.result
    if found is None:
        return None
    timed = outcome.timed
    ready = timed.ready if timed is not None else None
    return schema.ResultReport.of(
        outcome,
        ready,
        digest=found.candidate.model.digest,
        latency_ms=_latency_ms(found, outcome),
        latency_ratio=found.ratio,
        latency_ratio_ci=_interval(found.lane.ratio),
        size_bytes=found.candidate.size_bytes,
        peak_memory_bytes=found.peak_memory_bytes or None,
        executed_on=dict(outcome.timing.ready.executed_on) if outcome.timing and outcome.timing.ready else {},
        drift=drift_report(found.candidate.drift, worst_question(found.comparisons)),
        task=_task(outcome, found.candidate.task),
        operator_ms=_operator_ms(found, outcome),
        outputs=tuple(map(schema.OutputReport.of, found.comparisons)),
        shapes=_shapes(outcome),
        start=_start(ready),
        throughput=throughput_report(timed.throughput if timed else None),
        goal_ratio=goal_ratio_report(found.lane.goal),
        generation=generation_report(found.lane.generation),
    )


def _operator_ms(found: Measured, outcome: Outcome) -> dict[str, float]:
    """Of the result; the original is its own result where nothing was better."""
    times = outcome.operator_ms
    return times[-1] if len(times) == (1 if found.candidate.is_original else 2) else {}


def _interval(found: Ratio | None) -> tuple[float, float] | None:
    return found.interval if found is not None else None


def _shapes(outcome: Outcome) -> tuple[schema.ShapeReport, ...]:
    if outcome.timing is None or outcome.original is None:
        return ()
    names = outcome.prepared.shapes
    if outcome.result is not None and outcome.result.candidate.recast is not None:
        names = tuple(f"raw sample {place + 1}" for place in range(len(names)))
    before, after = outcome.original, outcome.timing
    calls = ((*one.sample_calls, *repeat(None, len(names))) for one in (before, after))  # kept of the first of them
    rows = zip(names, before.sample_ms, after.sample_ratio, *calls, strict=False)  # a slow model is timed on the first
    return tuple(
        schema.ShapeReport(
            shape=shape,
            original_ms=original_ms,
            result_ms=original_ms * ratio.value,
            ratio=ratio.value,
            ci=ratio.interval,
            original_calls=old,
            result_calls=new,
        )
        for shape, original_ms, ratio, old, new in rows
    )


def _latency_ms(found: Measured, outcome: Outcome) -> float | None:
    """The original's latency times the ratio: races are apart in time, and only ratios compare across them."""
    base = outcome.original
    recast = outcome.result is not None and outcome.result.candidate.recast is not None
    if base is None or not base.latency_ms or found.ratio is None or (found.candidate.recast is not None) is not recast:
        return found.lane.latency_ms or None
    return base.latency_ms * found.ratio


def _target(row: TargetOutcome) -> schema.TargetReport:
    return schema.TargetReport.of(
        row,
        runtime=row.target.runs_on if row.target else "",
        status=row.status.value,
        baseline=row.is_baseline,
        original_ratio=row.ratio,
        original_ratio_ci=row.interval,
        original_drift=drift_report(row.drift) if row.ratio is not None else None,
    )


def _step(attempt: Attempt, outcome: Outcome) -> schema.StepReport:
    against = attempt.ratio / attempt.parent_ratio if attempt.ratio is not None and attempt.parent_ratio else None
    return schema.StepReport.of(
        attempt,
        attempt.step,
        status=attempt.status.value,
        reason=attempt.why,
        ratio_to_original=attempt.ratio,
        ratio_ci=_interval(attempt.timing),
        ratio_to_best=against,
        drift=drift_report(attempt.drift) if attempt.drift else None,
        task_value=attempt.task.value if attempt.task else None,
        task_loss=attempt.task.loss if attempt.task else None,
        target=attempt.target or outcome.baseline,
        blame=dict(attempt.blame.details or {}) if attempt.blame else None,
    )


def _point(point: Measured, outcome: Outcome) -> schema.PointReport:
    candidate = point.candidate
    result = outcome.result.candidate if outcome.result is not None else None
    delivered = result is not None and (result.target, result.digest) == (candidate.target, candidate.digest)
    words = ((step.pass_name, options_text(step.options)) for step in candidate.steps)
    return schema.PointReport.of(
        point,
        candidate,
        number=point.number or None,
        chain=tuple(f"{name} ({options})" if options else name for name, options in words),
        latency_ms=_latency_ms(point, outcome),
        latency_ratio=point.ratio,
        latency_ratio_ci=_interval(point.lane.ratio),
        peak_memory_bytes=point.peak_memory_bytes or None,
        drift=drift_report(candidate.drift),
        task_value=candidate.task.value if candidate.task else None,
        lossy=candidate.is_lossy,
        delivered=delivered,
        target=candidate.target or outcome.baseline,
    )


def _task(outcome: Outcome, figure: TaskFigure | None) -> schema.TaskReport | None:
    """The metric of the result; that of the original where the original is the result."""
    use = outcome.prepared.task
    if use is None:
        return None
    found = figure or TaskFigure(use.original, use.original, 0.0, 0.0, len(use.samples))
    about = {"metric": use.metric.text, "higher_is_better": use.higher_is_better}
    return schema.TaskReport.of(found, **about, standard_error=found.error)


def drift_report(drift: Drift, at: str = "") -> schema.DriftReport:
    """How far outputs are, beside what a further sample may be."""
    return schema.DriftReport.of(drift, at=at, foreseen=max(drift.relative_error, drift.foreseen))


def goal_ratio_report(found: Ratio | None) -> schema.GoalRatioReport | None:
    """Returns the figures of the delivered model; None if the goal has no clock of its own."""
    return schema.GoalRatioReport.of(found, ci=found.interval) if found else None


def _start(ready: Ready | None) -> schema.StartReport | None:
    found = ready.start if ready is not None else None
    if ready is None or found is None or not found.first_s:
        return None
    return schema.StartReport(
        open_ms=1e3 * found.open_s,
        first_ms=1e3 * found.first_s[0],
        run_ms=1e3 * ready.run_s[0],
        open_memory_bytes=found.open_memory_bytes,
    )


def generation_report(found: GenerationTimes | None) -> schema.GenerationReport | None:
    """Returns the figures of a lane; None if the goal is another."""
    if found is None:
        return None
    rows = zip(found.depths, found.token_s, found.past_bytes, strict=True)
    depths = tuple(schema.DepthReport(tokens=n, tokens_per_s=1 / s, past_bytes=b) for n, s, b in rows)
    first, answer = 1e3 * found.first_s, 1e3 * found.seconds
    return schema.GenerationReport(prompt=found.prompt, new=found.new, first_ms=first, answer_ms=answer, depths=depths)


def throughput_report(found: Throughput | None) -> schema.ThroughputReport | None:
    """Returns the figures of a lane; None if throughput is not the goal."""
    if found is None:
        return None
    served = found.served
    return schema.ThroughputReport.of(
        served,
        **asdict(served.serving),
        how=served.serving.text,
        samples_per_second=found.samples_per_s,
        calls_ms=found.calls,
        as_it_came=served.tried[0].samples_per_s or None,
        tried=tuple(
            schema.TriedReport(
                how=one.serving.text,
                samples_per_second=one.samples_per_s or None,
                p95_ms=one.p95_s * 1e3 or None,
                problem=one.problem,
            )
            for one in served.tried
        ),
    )
