"""One result in one layout: written, opened by its consumer, compared, and timed as the consumer opens it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from optim._engine.compare.place import compare_run
from optim._engine.gate.drift import OutputComparison, merge_samples, worst_drift
from optim._engine.gate.outputs import compare_sample
from optim._engine.reports.parts.laid_out import LayoutReport
from optim._engine.runs.layouts.asked import AskedLayout
from optim._engine.runs.layouts.cost import opened_cost
from optim._engine.runs.layouts.not_carried import not_carried
from optim._engine.runs.layouts.opening import open_laid
from optim._engine.search.state import Candidate
from optim._engine.search.workbench import Workbench
from optim.errors import ExitStatus, OptimError, describe_exception
from optim.layout import Laid, Result

_SAMPLES = 4
"""That the consumer runs: its outputs are the result's or they are not, and a long sample takes seconds."""


@dataclass(frozen=True, slots=True)
class Bench:
    """What a layout is held against.

    Attributes:
        bench: prepared on the result's own graph and feeds.
        own: the result with its tuned settings.
    """

    bench: Workbench
    own: Candidate


def lay_out(asked: AskedLayout, result: Result, folder: Path, against: Bench | str, python: Path) -> LayoutReport:
    """Write a layout, have it opened, compare and time.

    Args:
        asked: which layout.
        result: what is laid out.
        folder: to write into.
        against: what it is held against; or why nothing can be run here.
        python: that has the consumer.

    Returns:
        What came of it; ``folder`` in it is the one that was given.

    Raises:
        OptimError: the result does not fit the layout, or the consumer computes something else.
    """
    laid = _written(asked, result, folder)
    report = LayoutReport(
        layout=asked.text,
        plugin=asked.plugin,
        folder=str(folder),
        graph=laid.graph,
        status="not-opened",
        text="",
        not_carried=not_carried(result.model.session, laid.session),
        notes=laid.notes,
    )
    if isinstance(against, str):
        return report.model_copy(update={"text": against})
    bench = against.bench
    bench.say(f"opening {asked.layout.name} by its consumer")
    samples = bench.prepared.compared[:_SAMPLES]
    feeds = [bench.reference.feed_set().sample(index) for index in samples]
    given = asked.layout.samples(result, feeds)
    opened = open_laid(asked.layout, laid, folder, given, python)
    cost = opened_cost(against.bench, against.own, folder / laid.graph, laid.session) if report.not_carried else None
    report = report.model_copy(update={"cost": cost})
    if opened.missing:
        text = f"{opened.missing}; {asked.layout.consumer}, then optim deliver opens it too"
        return report.model_copy(update={"text": text})
    found: dict[str, OutputComparison] = {}
    for index, sample, outputs in zip(samples, given, opened.outputs, strict=True):
        own = asked.layout.expected(result, sample, outputs)
        inputs, named = result.model.inputs, result.model.outputs
        if own is None:
            compared = compare_run(outputs, bench.reference, index, sample, ())
        else:
            compared = compare_sample(own, outputs, sample, inputs, named)
        found = merge_samples(found, compared)
    drift, tolerance = worst_drift(found.values()).relative_l2, bench.prepared.tolerance
    if drift > tolerance or any(one.problem for one in found.values()):
        problem = next((f"{one.name}: {one.problem}" for one in found.values() if one.problem), "")
        raise OptimError(
            "layout-differs",
            f"{opened.consumer} computes something else from layout {asked.layout.name}",
            problem or f"its outputs drift by {drift:.3g}, and rounding explains {tolerance:.3g}",
            "this is an issue of the layout or of its consumer: the run folder itself is right",
            asked.plugin,
            ExitStatus.NOT_HELD,
        )
    return report.model_copy(
        update={
            "status": "opened",
            "text": f"by {opened.consumer}",
            "drift": drift,
            "tolerance": tolerance,
            "samples": len(samples),
        }
    )


def _written(asked: AskedLayout, result: Result, folder: Path) -> Laid:
    """What the layout wrote.

    Raises:
        OptimError[layout-failed]: its plugin broke.
    """
    try:
        laid = asked.layout.write(result, folder, asked.options)
    except (OptimError, OSError):
        raise
    except Exception as error:
        raise OptimError(
            "layout-failed",
            f"layout {asked.layout.name} could not be written",
            describe_exception(error),
            "report this to the package below, which brings it",
            asked.plugin,
            ExitStatus.NOT_HELD,
        ) from error
    return laid
