"""One result in one layout: written, opened by its consumer, compared, and timed as the consumer opens it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from optim import Lab
from optim.arrays import Feeds, Outputs
from optim.engine.layouts import LayoutReport, OpenedCost, is_rounding, worst_drift
from optim.errors import ExitStatus, OptimError
from optim.layout import Laid, Opened, Result, open_laid
from optim.model import PACKED_WEIGHTS, SessionConfig
from optim_plugins.layouts.carried_settings import not_carried
from optim_plugins.layouts.deliver.asked import AskedLayout
from optim_plugins.layouts.deliver.baking import baked

_NOT_PACKED = "its weights are not packed there, so it opens later: load.py and optim.load map packed ones"

_SAMPLES = 4
"""That the consumer runs: its outputs are the result's or they are not, and a long sample takes seconds."""


def lay_out(asked: AskedLayout, result: Result, folder: Path, against: Lab | str, python: Path) -> LayoutReport:
    """Write a layout, have it opened, compare and time.

    Args:
        asked: which layout.
        result: what is laid out.
        folder: to write into.
        against: the result on its target, which the layout is held against; or why nothing can be run here.
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
    if PACKED_WEIGHTS in against.original.model.session.session_config:
        report = report.model_copy(update={"notes": (*report.notes, _NOT_PACKED)})
    if report.not_carried and folder != result.folder and not laid.tied_to:
        with baked(against, result, laid) as better:
            if better is not None:
                _empty(folder)
                laid = _written(asked, better.result, folder)
                lost = not_carried(better.left, laid.session)
                report = report.model_copy(update={"not_carried": lost, "baked": better.tied_to})
    if report.not_carried:
        cost = opened_cost(against, folder / laid.graph, laid.session)
        report = report.model_copy(update={"cost": cost})
    return _compared(asked, result, _Place(folder, laid, python), against, report)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a layout lies, and who opens it there."""

    folder: Path
    laid: Laid
    python: Path


def _compared(asked: AskedLayout, result: Result, place: _Place, lab: Lab, report: LayoutReport) -> LayoutReport:
    """The report with what the consumer made of it.

    Raises:
        OptimError[layout-differs]: it computes something else.
    """
    lab.say(f"opening {asked.layout.name} by its consumer")
    numbers = lab.setup.samples[:_SAMPLES]
    feeds = [lab.sample(number) for number in numbers]
    with asked.blaming("could not say what its consumer runs"):
        samples = asked.layout.samples(result, feeds)
        if len(samples) != len(feeds):
            raise ValueError(f"samples returned {len(samples)} for {len(feeds)} of the run")
    opened = open_laid(asked.layout, place.laid, place.folder, samples, place.python)
    if opened.missing:
        text = f"{opened.missing}; {asked.layout.consumer}, then optim deliver opens it too"
        return report.model_copy(update={"text": text})
    runs: list[tuple[Feeds, Outputs, Outputs]] = []
    left_out: tuple[str, ...] = ()
    for number, sample, outputs in zip(numbers, samples, opened.outputs, strict=True):
        with asked.blaming("could not say what its consumer should give"):
            own = asked.layout.expected(result, sample, outputs)
        expected = lab.expected(number) if own is None else own
        if not outputs or not expected.keys() >= outputs.keys():
            gives = f"it gives {', '.join(outputs) or 'nothing'}, and the result {', '.join(expected)}"
            raise _differs(asked, opened, gives)
        left_out = tuple(name for name in expected if name not in outputs)
        runs.append((sample, {name: expected[name] for name in outputs}, outputs))
    found = lab.compare_outputs(runs)
    drift, tolerance = worst_drift(found).relative_error, lab.setup.tolerance
    problem = next((f"{one.name}: {one.problem}" for one in found if one.problem), "")
    if problem or not is_rounding(found):
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


def opened_cost(lab: Lab, graph: Path, session: SessionConfig) -> OpenedCost | None:
    """The ratio of a graph as its consumer opens it to the result with its own settings; None where nothing is timed.

    Args:
        lab: of the result, with its settings.
        graph: that the consumer opens.
        session: settings that it opens it with.
    """
    if not lab.setup.target.timed or graph.suffix != ".onnx":
        return None
    there = lab.model(graph, session=session)
    lab.say("timing it as its consumer opens it")
    try:
        found = lab.time(lab.original, there)
    except OptimError as error:
        if error.reference != "other-failed":
            raise
        return None
    return OpenedCost(ratio=found.ratio, ci=found.interval)
