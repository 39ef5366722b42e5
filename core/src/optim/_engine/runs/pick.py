"""Another point of a finished run: nothing is searched, nothing is run, since the points were proven in that run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optim._engine.goals.bounds import FIELDS, Bound, merged, parse_bound
from optim._engine.goals.known import find_goal
from optim._engine.json_file import read_json
from optim._engine.plugins.registry import Registry, load_registry
from optim._engine.reports.outcome import Outcome, RunStatus
from optim._engine.runs.delivering import find_deliverer
from optim._engine.runs.execute import finished_run
from optim._engine.runs.folder import RunFolder, read_mark
from optim._engine.runs.publish import publish
from optim._engine.search.front import speed
from optim._engine.search.objective import Objective
from optim._engine.search.rows import missing_rows
from optim._engine.search.state import Attempt, Candidate, Measured, StepStatus, inaccuracy
from optim._engine.sources.export_file import files_of
from optim._engine.store import Store
from optim.errors import OptimError, unknown_name
from optim.onnx.operators import operator_counts
from optim.source import CONFIG_FILE

if TYPE_CHECKING:
    from optim._engine.reports.schema import Report
    from optim._engine.runs.delivering import LayoutRequest

_ORDERS: Mapping[str, Callable[[Measured], Any]] = {
    "fastest": speed,
    "smallest": lambda point: (point.candidate.size_bytes, speed(point)),
    "most-accurate": lambda point: (inaccuracy(point), speed(point)),
}
"""The first point of such an order is what the word picks."""


@dataclass(frozen=True, slots=True)
class Pick:
    """The value of ``--pick``: a point, and bounds that it keeps within.

    Attributes:
        word: ``fastest``, ``smallest``, ``most-accurate``, or a number of the front.
    """

    word: str
    bounds: tuple[Bound, ...] = ()

    @classmethod
    def parse(cls, wanted: str) -> Pick:
        """``smallest``, ``2``, or bounds after a word: ``fastest,max-size=50MB``; without a word ``most-accurate``."""
        words = [word.strip() for word in wanted.split(",")]
        said = dict(word.split("=", 1) for word in words if "=" in word)
        figures = {f"max-{figure}": figure for figure in FIELDS}
        plain = [word for word in words if "=" not in word] or ["most-accurate"]
        word = plain[0]
        is_number = word.isdecimal() and int(word) > 0
        if len(plain) > 1 or set(said) - set(figures) or not (word in _ORDERS or (is_number and not said)):
            raise _unknown_point(wanted, [*_ORDERS, *(f"{name}=" for name in figures), "1", "2"])
        return cls(word, merged((), (parse_bound(figures[name], text) for name, text in said.items())))


def choose(points: Sequence[Measured], wanted: str) -> Measured:
    """The point that a word or a number names."""
    front = {str(point.number): point for point in points if point.number}
    if not front:
        raise nothing_to_pick(wanted)
    if wanted in _ORDERS:
        return min(front.values(), key=_ORDERS[wanted])
    if wanted not in front:
        raise _unknown_point(wanted, [*_ORDERS, *front])
    return front[wanted]


def _unknown_point(wanted: str, known: Sequence[str]) -> OptimError:
    return unknown_name(
        "point",
        wanted,
        known,
        fix="give a number of report.html, fastest, smallest, most-accurate, or limits: max-size=50MB,max-latency=20ms",
    )


def nothing_to_pick(wanted: str) -> OptimError:
    """The error for a run without points on its front."""
    return OptimError.usage(
        "no-points",
        f"this run has no result to pick: {wanted}",
        "the run found no better model within its budget",
        "run it again with a larger --max-drift, or with more --search-seconds",
    )


def pick_from(
    folder: Path, wanted: str, output: Path, say: Callable[[str], None], layouts: LayoutRequest | None = None
) -> Report:
    """Deliver another point of the run that filled ``folder``."""
    store, (key, failed) = Store(), _key_of(folder, wanted)
    with store.in_use(), RunFolder.claim(output) as claimed:
        outcome = finished_run(store, key)
        if outcome is None or not any(point.number for point in outcome.points):
            raise OptimError.usage(
                "points-gone",
                f"the points of {folder} are not in the cache",
                "the cache does not keep a failed run"
                if failed
                else "the cache was pruned, or another OPTIM_CACHE_DIR is set",
                f"repeat the run with --pick {wanted}: optim run MODEL -o DIR --pick {wanted}",
            )
        kept = folder if (folder / CONFIG_FILE).is_file() else None
        registry = load_registry()
        if layouts is not None:
            asked, deliverer = outcome.settings, find_deliverer(registry)
            deliverer.require(registry, layouts, kept or files_of(asked.source, asked.export), output)
        return publish(picked(outcome, wanted, registry), registry, claimed, say, layouts, kept)


def picked(outcome: Outcome, wanted: str, registry: Registry) -> Outcome:
    """The same run with another point as its result."""
    asked, settings = Pick.parse(wanted), outcome.settings
    bounds = merged(settings.bounds, asked.bounds)
    objective = Objective(find_goal(registry, settings.goal), outcome.target.timed, bounds, outcome.original)
    point = choose(_within(outcome, objective, asked), asked.word)
    front = sum(1 for one in outcome.points if one.number)
    original = Candidate(outcome.source.model, outcome.source.size_bytes)
    better = objective.is_reached(point, original)
    attempts = [*outcome.attempts, *missing_rows(outcome.attempts, point.candidate)]
    return replace(
        outcome,
        target=outcome.target_of(point.candidate),
        requirements=outcome.requirements_of(point.candidate),
        status=RunStatus.IMPROVED if better else RunStatus.PREPARED,
        result=point,
        reason=f"result {point.number} of {front}, picked as {wanted}",
        operators=operator_counts(point.candidate.model.path),
        attempts=[_settled(attempt, point, outcome.result) for attempt in attempts],
    )


def _within(outcome: Outcome, objective: Objective, asked: Pick) -> list[Measured]:
    """The points of the front within the bounds of the run and of the pick; all of them for a number."""
    front = [point for point in outcome.points if point.number]
    if asked.word.isdecimal():
        return front
    within = [point for point in front if not objective.objection(point)]
    if within or not front:
        return within
    nearest = min(front, key=objective.excess)
    raise OptimError.usage(
        "no-points",
        f"no result of this run is known to meet {objective.bounds_text}",
        f"the nearest is result {nearest.number}: {objective.objection(nearest)}",
        f"accept a larger bound, or deliver that one: --pick {nearest.number}",
    )


def _settled(attempt: Attempt, point: Measured, delivered: Measured | None) -> Attempt:
    """A row of the report where this point is delivered, and not what the goal chose."""
    whole = point.candidate.chain
    copied = replace(attempt)
    if attempt.chain == whole[: len(attempt.chain)]:
        if attempt.chain == whole:  # the figure of the verdict, on fresh rounds
            copied.note(point, proven=True)
        ratio, without = copied.ratio, attempt.parent_ratio
        figures = f"latency ratio {ratio:.2f}; " if ratio is not None else ""
        if ratio is not None and without is not None:
            figures = f"latency ratio {ratio:.2f}, {without:.2f} without it; "
        copied.settle(StepStatus.KEPT, f"{figures}part of result {point.number}, which was picked")
    elif attempt.status is StepStatus.KEPT:
        goals = f", ratio {delivered.ratio:.2f}" if delivered is not None and delivered.ratio is not None else ""
        copied.settle(StepStatus.DROPPED, f"part of the best result{goals}; result {point.number} was picked")
    return copied


def _key_of(folder: Path, wanted: str) -> tuple[str, bool]:
    """The key of the run that filled a folder and has points to pick, and whether it failed."""
    from optim._engine.reports.schema import REPORT_FILE

    try:
        report = read_json(folder / REPORT_FILE)
        key, points, status = report["key"], list(report["points"]), report["status"]
    except (OSError, ValueError, KeyError, TypeError):
        key = None
    if read_mark(folder) is None or not isinstance(key, str) or not key:
        raise OptimError.usage(
            "not-a-run-folder",
            f"{folder} is not a folder that optim run wrote",
            "it has no report.json of a finished run",
            "optim run MODEL -o DIR",
        )
    if not any(isinstance(point, dict) and point.get("number") for point in points):
        raise nothing_to_pick(wanted)
    return key, status == RunStatus.FAILED
