"""One result in one layout: written, opened by its consumer, compared, and timed as the consumer opens it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from optim._engine.gate.drift import OutputComparison, is_rounding, merge_samples, worst_drift
from optim._engine.gate.outputs import compare_sample
from optim._engine.reports.parts.laid_out import LayoutReport, OpenedCost
from optim._engine.runs.layouts.asked import AskedLayout
from optim._engine.runs.layouts.baking import baked
from optim._engine.runs.layouts.not_carried import not_carried
from optim._engine.runs.layouts.opening import Opened, open_laid
from optim._engine.search.effort import Effort
from optim._engine.search.measure.racing import Wanted, race_candidates
from optim._engine.search.state import Candidate
from optim._engine.search.workbench import Workbench
from optim.errors import ExitStatus, OptimError
from optim.layout import Laid, Result
from optim.model import PACKED_WEIGHTS, SessionConfig

_NOT_PACKED = "its weights are not packed there, so it opens later: load.py and optim.load map packed ones"

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
        baked=laid.tied_to,
    )
    if isinstance(against, str):
        return report.model_copy(update={"text": against})
    if PACKED_WEIGHTS in against.own.model.session.session_config:
        report = report.model_copy(update={"notes": (*report.notes, _NOT_PACKED)})
    if report.not_carried and folder != result.folder and not laid.tied_to:
        with baked(against.bench, result, laid) as better:
            if better is not None:
                _empty(folder)
                laid = _written(asked, better.result, folder)
                lost = not_carried(better.left, laid.session)
                report = report.model_copy(update={"not_carried": lost, "baked": better.tied_to})
    if report.not_carried:
        cost = opened_cost(against.bench, against.own, folder / laid.graph, laid.session)
        report = report.model_copy(update={"cost": cost})
    return _compared(asked, result, _Place(folder, laid, python), against.bench, report)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a layout lies, and who opens it there."""

    folder: Path
    laid: Laid
    python: Path


def _compared(
    asked: AskedLayout, result: Result, place: _Place, bench: Workbench, report: LayoutReport
) -> LayoutReport:
    """The report with what the consumer made of it.

    Raises:
        OptimError[layout-differs]: it computes something else.
    """
    bench.say(f"opening {asked.layout.name} by its consumer")
    indexes = bench.prepared.compared[:_SAMPLES]
    feeds = [bench.reference.feed_set().sample(index) for index in indexes]
    with asked.blaming("could not say what its consumer runs"):
        samples = asked.layout.samples(result, feeds)
        if len(samples) != len(feeds):
            raise ValueError(f"samples returned {len(samples)} for {len(feeds)} of the run")
    opened = open_laid(asked.layout, place.laid, place.folder, samples, place.python)
    if opened.missing:
        text = f"{opened.missing}; {asked.layout.consumer}, then optim deliver opens it too"
        return report.model_copy(update={"text": text})
    found: dict[str, OutputComparison] = {}
    left_out: tuple[str, ...] = ()
    variations = bench.reference.variations()
    for index, sample, outputs in zip(indexes, samples, opened.outputs, strict=True):
        with asked.blaming("could not say what its consumer should give"):
            own = asked.layout.expected(result, sample, outputs)
        expected = bench.reference.expected(index) if own is None else own
        if not outputs or not expected.keys() >= outputs.keys():
            gives = f"it gives {', '.join(outputs) or 'nothing'}, and the result {', '.join(expected)}"
            raise _differs(asked, opened, gives)
        left_out = tuple(name for name in expected if name not in outputs)
        both = {name: expected[name] for name in outputs}
        compared = compare_sample(both, outputs, sample, result.model.inputs, result.model.outputs, variations)
        found = merge_samples(found, compared)
    drift, tolerance = worst_drift(found.values()).relative_error, bench.prepared.tolerance
    problem = next((f"{one.name}: {one.problem}" for one in found.values() if one.problem), "")
    if problem or not is_rounding(found.values()):
        far = f"its outputs drift by {drift:.3g}, and rounding explains {tolerance:.3g}"
        raise _differs(asked, opened, problem or far)
    measured = {"drift": drift, "tolerance": tolerance, "samples": len(samples)}
    silent = (f"its consumer does not hand out {', '.join(left_out)}",) if left_out else ()
    said = {"status": "opened", "text": f"by {opened.consumer}", "notes": (*report.notes, *silent)}
    return report.model_copy(update={**said, **measured})


def _differs(asked: AskedLayout, opened: Opened, cause: str) -> OptimError:
    return OptimError(
        "layout-differs",
        f"{opened.consumer} computes something else from layout {asked.layout.name}",
        cause,
        "this is an issue of the layout or of its consumer: the run folder itself is right",
        asked.plugin,
        ExitStatus.NOT_HELD,
    )


def _empty(folder: Path) -> None:
    """Take away what a layout wrote, to write it once more."""
    shutil.rmtree(folder)
    folder.mkdir()


def _written(asked: AskedLayout, result: Result, folder: Path) -> Laid:
    """What the layout wrote.

    Raises:
        OptimError[layout-failed]: its plugin broke.
    """
    with asked.blaming("could not be written", OSError):  # that is the disk's
        laid = asked.layout.write(result, folder, asked.options)
        if not isinstance(laid, Laid):
            raise TypeError(f"write returned {type(laid).__name__}, not Laid")
    return laid


_RACE = Effort(5.0, least_rounds=10, most_rounds=40, width=0.02, drop=False)
"""Five seconds, as long as the last race of a small run: who delivers waits for it."""


def opened_cost(bench: Workbench, own: Candidate, graph: Path, session: SessionConfig) -> OpenedCost | None:
    """The ratio of a graph as its consumer opens it to the result with its own settings; None where nothing is timed.

    Args:
        bench: prepared on the result's own graph.
        own: the result with its settings.
        graph: that the consumer opens.
        session: settings that it opens it with.
    """
    if not bench.target.timed or graph.suffix != ".onnx":
        return None
    bench.say("timing it as its consumer opens it")
    found = bench.ingest_file(graph)
    there = Candidate(found.model.with_session(session), found.size_bytes)
    bench.original = own
    _, (other,) = race_candidates(bench, [there], _RACE, Wanted("layout"))
    if other.ratio is None:
        return None
    return OpenedCost(ratio=other.ratio.value, ci=other.ratio.interval)
