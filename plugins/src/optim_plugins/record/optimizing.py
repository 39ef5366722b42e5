"""Modules of a recorded pipeline optimized, each by a run of its own, put in place, and proved together."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optim
from optim import OptimError
from optim.arrays import Array
from optim.drift import compare_outputs, objection
from optim_plugins.record.answers import OptimizedModule, OptimizedPipeline
from optim_plugins.record.entrances import Entrances
from optim_plugins.record.kept import Room
from optim_plugins.record.modules import Call, ModuleCall, NoGraphError, PipelineModule, timed

_ROUNDS = 5
"""In which the pipeline is timed as it was and as it is, in turns."""


@dataclass(slots=True)
class _Swap:
    """A module with what may take its place.

    Attributes:
        module: of the pipeline.
        row: what is told of it.
        function: that takes its place; the original where it stays.
    """

    module: PipelineModule
    row: OptimizedModule
    function: Call


class Optimizing:
    """Optimizes the modules of a pipeline.

    Args:
        modules: with their recorded calls.
        entrances: with the calls of the pipeline.
        output: folder for the run folders.
        least_share: of the pipeline's time that a module must take.
        say: told what is going on.
    """

    def __init__(
        self,
        modules: Sequence[PipelineModule],
        entrances: Entrances,
        output: Path,
        least_share: float,
        say: Callable[[str], None],
    ) -> None:
        self._modules, self._entrances, self._output = modules, entrances, output
        self._least_share, self._say = least_share, say
        self._calls = entrances.calls.calls
        self._notes: list[str] = []
        self._errors: list[OptimError] = []

    def run(self, asked: Mapping[str, Any]) -> tuple[OptimizedPipeline, list[PipelineModule]]:
        """What became of each module, and the modules that were replaced."""
        self._require_repeatable(asked["max_drift"])
        whole = self._entrances.calls.seconds
        swaps = []
        for module in sorted(self._modules, key=lambda one: -one.calls.seconds):
            swaps += self._module(module, module.calls.seconds / whole, dict(asked))
        if self._errors and not any(one.row.folder for one in swaps):
            raise self._errors[0]  # no run was possible: the request is wrong, not a module
        placed = [one for one in swaps if one.row.status == "swapped"]
        try:
            drift, ratio = self._prove(placed, asked["max_drift"])
        except BaseException:
            for one in placed:
                one.module.restore()
            raise
        kept = [one.module for one in placed if one.row.status == "swapped"]
        rows = tuple(one.row for one in swaps)
        notes = (*self._entrances.notes, *self._notes)
        return OptimizedPipeline(
            modules=rows, calls=len(self._calls), drift=drift, latency_ratio=ratio, notes=notes
        ), kept

    def _require_repeatable(self, max_drift: float) -> None:
        if not self._calls:
            raise OptimError.usage(
                "nothing-to-repeat",
                "the pipeline cannot be proved",
                "; ".join(self._entrances.notes) or "its modules were called, but not through the pipeline",
                "call the pipeline inside the block, or through the recorder if it is a function: recorder(text)",
            )
        if not any(call.returned for call in self._calls):
            raise OptimError.usage(
                "result-not-arrays",
                "what the pipeline returns cannot be compared",
                f"it has no arrays, numbers or texts; it has {', '.join(self._entrances.strange[:3]) or 'nothing'}",
                "say what is compared: optim.record(pipe, outputs=lambda result: result.boxes)",
            )
        if self._entrances.strange:
            self._notes.append(f"not compared: {', '.join(self._entrances.strange[:5])}")
        found = [(call.returned, self._entrances.repeat(call)[0]) for call in self._calls]
        if reason := objection(compare_outputs(found), max_drift):
            raise OptimError.usage(
                "not-repeatable",
                "the pipeline returns other values when a call is repeated, before anything is changed",
                reason,
                "seed what is random, or say what is compared: optim.record(pipe, outputs=lambda result: result.boxes)",
            )

    def _module(self, module: PipelineModule, share: float, asked: dict[str, Any]) -> list[_Swap]:
        """The module itself, or those inside it if there is no graph of the whole."""

        def stays(reason: str, folder: str = "") -> list[_Swap]:
            row = OptimizedModule(name=module.name, kind=module.kind, status="stays", reason=reason, folder=folder)
            return [_Swap(module, row, module.original)]

        if share < self._least_share:
            return stays(f"it takes {share:.1%} of the time, and least_share is {self._least_share:.0%}")
        if module.device != "cpu" and asked.get("target") is None:
            return stays(f"it runs on {module.device}: name a target, such as target='cuda'")
        calls = _most_alike([call for call in module.calls.calls if not call.problem])
        if not calls:
            problem = next((call.problem for call in module.calls.calls), module.unreadable)
            return stays(problem or "none of its calls could be kept") + self._inside(module, share, asked)
        if len(calls) < len(module.calls.calls):
            self._notes.append(f"{module.name}: calls of other kinds than most run the original")
        folder = self._output / re.sub(r"[^\w.-]", "-", module.name)
        try:
            self._say(f"{module.name}: {len(calls)} calls")
            source = module.prepare(calls, folder.with_name(f"{folder.name}-source"), self._say)
        except NoGraphError as error:
            return stays(str(error)) + self._inside(module, share, asked)
        samples = [dict(call.given) for call in calls]
        try:
            report = optim.run(source, folder, data=samples, say=self._say, **asked)
        except OptimError as error:
            self._errors.append(error)
            return stays(f"{error.reference}: {error.what}: {error.cause}")
        is_faster = report.status == "improved" or module.gains_by_export
        if report.result is None or not is_faster:
            return stays(f"{report.status}: {report.reason}", folder=str(folder))
        session: Any = optim.load(folder)
        drift, reason = _judged(session, calls, asked["max_drift"])
        by_export = "" if report.status == "improved" else "its ONNX graph; "
        row = OptimizedModule(
            name=module.name,
            kind=module.kind,
            status="stays" if reason else "swapped",
            reason=reason or by_export + report.reason,
            latency_ratio=report.result.latency_ratio,
            drift=drift,
            folder=str(folder),
        )
        return [_Swap(module, row, module.bind(session, calls[0]))]

    def _inside(self, module: PipelineModule, share: float, asked: dict[str, Any]) -> list[_Swap]:
        room = Room(module.calls.room.limit, module.calls.room.left, 0)
        inner = module.inner(room) if module.calls.calls else []
        whole = sum(one.calls.seconds for one in inner)
        return [swap for one in inner for swap in self._module(one, share * one.calls.seconds / whole, asked)]

    def _prove(self, placed: list[_Swap], max_drift: float) -> tuple[float, float | None]:
        """Put functions in place, and take back what breaks the budget or is not faster there."""
        while now := [one for one in placed if one.row.status == "swapped"]:
            drift, reason, unused = self._compared(now, max_drift)
            for one in unused:
                _take_back(one, "the pipeline did not call it when its calls were repeated, so nothing proves it")
            if reason and not unused:
                worst = max(now, key=lambda one: one.row.drift or 0.0)
                _take_back(worst, f"with it the pipeline is beyond the budget: {reason}")
            if reason or unused:
                continue
            ratio = self._time(now)
            slower = [one for one in now if (one.row.ratio_in_place or 0.0) >= 1.0]
            for one in slower:
                times = f"{one.row.ratio_in_place:.2f} times as long as the original"
                _take_back(one, f"it takes {times} in the pipeline")
            if not slower:
                return drift, ratio
        return 0.0, None

    def _compared(self, now: Sequence[_Swap], max_drift: float) -> tuple[float, str, list[_Swap]]:
        """Drift of what the pipeline returns, why it does not hold, and the functions that were not called."""
        try:
            spent, returned = self._round(now, swapped=True)
        except Exception as error:  # the pipeline raises because of what it got from a function
            return 0.0, f"it raised {type(error).__name__}: {error}", []
        found = compare_outputs([(call.returned, one) for call, one in zip(self._calls, returned, strict=True)])
        drift = max((one.relative_error for one in found), default=0.0)
        return drift, objection(found, max_drift), [one for one in now if not spent[one.row.name]]

    def _time(self, now: Sequence[_Swap]) -> float:
        """Time the pipeline with and without the functions in turns; they are in place afterwards."""
        ratios: list[float] = []
        of_modules: dict[str, list[float]] = {one.row.name: [] for one in now}
        for number in range(_ROUNDS):
            order = (False, True) if number % 2 else (True, False)
            spent = {swapped: self._round(now, swapped=swapped)[0] for swapped in order}
            ratios.append(spent[True].pop("") / spent[False].pop(""))
            for name, seconds in spent[True].items():
                of_modules[name].append(seconds / max(spent[False][name], 1e-9))
        for one in now:
            ratio = statistics.median(of_modules[one.row.name])
            one.row = one.row.model_copy(update={"ratio_in_place": ratio})
            one.module.install(one.function)
        return statistics.median(ratios)

    def _round(self, now: Sequence[_Swap], *, swapped: bool) -> tuple[dict[str, float], list[dict[str, Array]]]:
        """Repeat all calls of the pipeline.

        Returns:
            Seconds in each module, those of the pipeline under an empty name; and what each call returned.
        """
        spent = {one.row.name: [0.0] for one in now}
        for one in now:
            function = one.function if swapped else one.module.original
            one.module.install(timed(one.module, function, spent[one.row.name]))
        made = [self._entrances.repeat(call) for call in self._calls]
        of_modules = {name: one[0] for name, one in spent.items()}
        return {"": sum(seconds for _, seconds in made), **of_modules}, [returned for returned, _ in made]


def _take_back(swap: _Swap, reason: str) -> None:
    swap.module.restore()
    swap.row = swap.row.model_copy(update={"status": "taken back", "reason": reason})


def _most_alike(calls: Sequence[ModuleCall]) -> list[ModuleCall]:
    """The calls of the kind that most have."""
    groups: list[list[ModuleCall]] = []
    for call in calls:
        group = next((one for one in groups if one[0].key == call.key), None)
        groups.append([call]) if group is None else group.append(call)
    return max(groups, key=len, default=[])


def _judged(session: Any, calls: Sequence[ModuleCall], max_drift: float) -> tuple[float, str]:
    """How far a session is from what was recorded, and why it does not hold."""
    inputs = {one.name for one in session.get_inputs()}
    names = [one.name for one in session.get_outputs()]

    def pairs() -> Iterator[tuple[Mapping[str, Array], Mapping[str, Array]]]:
        for call in calls:
            made = session.run(None, {name: one for name, one in call.given.items() if name in inputs})
            yield call.returned, dict(zip(names, made, strict=True))

    try:
        found = compare_outputs(pairs())
    except Exception as error:  # what a runtime raises
        return math.inf, f"its model does not run on the recorded calls: {type(error).__name__}: {error}"
    return max((one.relative_error for one in found), default=0.0), objection(found, max_drift)
