"""Candidates against the original: timed in one race, or only opened and compared where the target is not timed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, TypeVar, cast

from optim._engine.compare.place import Place
from optim._engine.goals.known import release_of
from optim._engine.jobs import lane
from optim._engine.jobs.lane import LONG_S, LaneClock
from optim._engine.search.lane_costs import LEAST_ROUNDS
from optim._engine.search.measure import race_job
from optim._engine.search.measure.lane_figures import as_base
from optim._engine.search.measure.race_job import Admission, Effort
from optim._engine.search.state import Candidate, LaneResult, StepKey
from optim._engine.search.workbench import Workbench
from optim.errors import OptimError
from optim.jobs.process import WorkerFailed
from optim.jobs.resources import free_memory_bytes
from optim.jobs.wire import from_wire, to_wire
from optim.workplace import Work

T = TypeVar("T")

_MODELS_OPEN = 3
"""Times a model's size that an open session is expected to take: weights, packed copies of them, and activations."""

_PROCESS_BYTES = 150 << 20
"""Memory of a process with Python, numpy and a runtime."""

_CONTEXT_BYTES = 600 << 20
"""What a process is expected to take on a GPU before its model, for the context of CUDA and its libraries: an estimate,
not measured. What the original took with its inputs, where that is more, is taken for each lane instead."""

_FREE_SHARE = 0.5
"""Other programs start while a race runs, and a candidate may take more than the original."""


class TimingFailed(OptimError):  # noqa: N818 - it states what happened, and is no kind of error of its own to a user
    """The original, or the device it runs on, failed while something was timed: no race can be run any more."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked of a race.

    Attributes:
        samples: to compare with the original on, before the race.
        gated: whether what is beyond the budget is not timed.
        proves: whether it is one of the last races, whose figures of the original are reported.
        places: where the original itself is timed elsewhere, after the candidates.
        programs: clocks of other programs, each in a lane of its own, after the places.
        plain: whether calls alone are timed, whatever clock the goal has.
    """

    samples: tuple[int, ...] = ()
    measure_task: bool = False
    gated: bool = False
    proves: bool = False
    places: tuple[Place, ...] = ()
    programs: tuple[LaneClock, ...] = ()
    plain: bool = False


_NOTHING = Wanted()


class Races:
    """Races of one run: its candidates against its original."""

    def __init__(self, bench: Workbench) -> None:
        self._bench = bench
        self.prepared, self.say, self.teller = bench.prepared, bench.say, bench.teller
        self._recast: dict[StepKey, Candidate] = {}
        self._doubt: tuple[float, float] | None = None

    def race(
        self, candidates: Sequence[Candidate], effort: Effort, wanted: Wanted = _NOTHING
    ) -> tuple[LaneResult, list[LaneResult]]:
        """Times candidates against the original, after their outputs were compared.

        No figure is taken from an earlier run: it may have been disturbed, and the machine is another by now.

        Returns:
            What became of the original, and of every candidate and place, in order.

        Raises:
            TimingFailed: the original does not run any more; it names the plugin that runs it.
        """
        bench, release = self._bench, release_of(self._bench.registry, self._bench.goal)
        of_goal = None if wanted.plain else bench.goal.clock(bench.settings.goal_request)
        clock = LaneClock.of(bench.goal.name, of_goal, release) if of_goal else None
        if clock is not None:
            effort = replace(effort, drop=False, gain_width=0.0)  # what is slow to run may be better by the goal
        original = self.original_for(candidates[0]) if candidates else bench.original
        given = {"timed": self.prepared.timed[: effort.most_samples], "clock": clock}
        base = self._lane(original, Wanted(), **given, batched=wanted.proves and self._is_quick)
        bounded = bench.bounded(bench.baseline, LEAST_ROUNDS)  # one that hangs leaves the run time to say so
        base = replace(base, comparison=replace(base.comparison, place=bounded))
        lanes = [self._lane(one, wanted, **given) for one in candidates]
        lanes += [replace(base, comparison=replace(base.comparison, place=place)) for place in wanted.places]
        lanes += [replace(base, clock=program) for program in wanted.programs]
        lossy = tuple(one.is_lossy or not bench.target.exact for one in candidates)
        admit, beside = (
            Admission(bench.budget, lossy) if wanted.gated else None,
            self._fit_beside_others(1 + len(lanes)),
        )
        request = race_job.Request(base, tuple(lanes), effort, bench.settings.seed, admit, opens_beside=beside)
        try:
            answer = where_timed(bench, race_job, request, race_job.Answer)
        except WorkerFailed as failed:
            raise self.failed(failed.reason, failed.error) from failed
        first, others = answer.base, list(answer.lanes)
        for found in (first, *others):
            if found.late:
                bench.deadline.note(late_text(found.late))
            if found.doubt:
                self._doubt = self._doubt or found.doubt  # said once, with the figures of the first race
                bench.deadline.note(self._clock_doubt(*self._doubt))
        if original.digest != bench.original.digest:  # the very model that it is timed against: apart by noise only
            for place, candidate in enumerate(candidates):
                if candidate.digest == original.digest:
                    others[place] = as_base(others[place])
        bench.runner.count += 1
        return first, others

    def check(self, candidate: Candidate, *, batched: bool = True) -> LaneResult:
        """Opens a model that is not timed, and compares it on every sample of the gate; ``batched``: in a batch too."""
        bench, samples = self._bench, self.prepared.compared
        key = bench.keys.found("check", candidate.digest, candidate.interfaces, samples, batched)
        known = bench.runner.known(key, LaneResult)
        if known is not None:
            return known
        wanted = Wanted(samples, measure_task=True, proves=batched)
        look = race_job.Request(self._lane(candidate, wanted), (), None, 0, timeout_s=bench.settings.timeout_s)
        result = where_timed(bench, race_job, look, race_job.Answer, timed=False).base
        bench.runner.count += 1
        if not result.failure:
            bench.runner.keep(key, result)
        return result

    def original_for(self, candidate: Candidate) -> Candidate:
        """Returns the original as it is timed against a candidate: with the step that changed its inputs and outputs.

        That step is applied once in a run.
        """
        bench, recast = self._bench, candidate.recast
        if recast is None:
            return bench.original if bench.entry is None else replace(bench.original, model=bench.entry)
        if recast.key in self._recast:
            return self._recast[recast.key]
        tried = bench.try_step(recast, bench.original, bench.settings.needed_timeout_s)
        if tried.answer is None or not tried.answer.result.changed:
            offered = bench.registry.find_pass(recast.pass_name, bench.target)
            raise OptimError(
                "recast-failed",
                f"{offered.name} does not work on the original model",
                tried.failure or "; ".join(tried.answer.result.notes if tried.answer else ()),
                "it works on a model made from the original: report this to its plugin",
                offered.plugin.release,
            )
        made = bench.original.after(recast, tried.answer.result, tried.answer.size_bytes)
        self._recast[recast.key] = made
        return made

    @property
    def at_once(self) -> int:
        """How many models may be open together in half of the free memory, of the machine and of the device."""
        return max(2, int(self._room * _FREE_SHARE))

    def failed(self, reason: str, error: OptimError | None = None) -> TimingFailed:
        """The error of an original that ran before and does not run any more; ``error``: what was raised, if it was."""
        found = error or OptimError(
            "original-failed",
            "the original model stopped running while it was timed",
            reason,
            "run it again; if it fails again, check the free memory and use optim --debug",
        )
        package = found.package or self._release
        return TimingFailed(found.reference, found.what, found.cause, found.fix, package, found.status)

    def _fit_beside_others(self, lanes: int) -> bool:
        """Whether half of the memory for lanes takes these: runs that begin together count the same memory as free."""
        return lanes <= self._room * _FREE_SHARE / 2

    @property
    def _room(self) -> float:
        """How many models all of the free memory takes, of the machine and of the device."""
        bench = self._bench
        each = _MODELS_OPEN * bench.original.size_bytes
        available = free_memory_bytes() if bench.elsewhere is None else bench.elsewhere.available_bytes
        rooms = [available / (each + _PROCESS_BYTES)]
        device_bytes = bench.device_free_bytes()
        if device_bytes is not None:
            rooms.append(device_bytes / max(each + _CONTEXT_BYTES, self.prepared.device_bytes))
        return min(rooms)

    def _lane(self, candidate: Candidate, wanted: Wanted, **changes: Any) -> lane.Request:
        held = self._bench.settings.max_batch_drift is not None and wanted.gated
        looked_at = wanted.proves and bool(wanted.samples) and self._is_quick
        request = lane.Request(
            candidate.model,
            self._bench.comparison(candidate),
            wanted.samples,
            timed=(),
            measure_task=wanted.measure_task,
            batched=held or looked_at,
        )
        return replace(request, **changes)

    @property
    def _is_quick(self) -> bool:
        """Whether answers in a batch are looked at in the proof: that takes ten runs of each lane."""
        return self.prepared.run_s <= LONG_S

    @property
    def _release(self) -> str:
        """The distribution that runs the original."""
        return self._bench.registry.offered("backend")[self._bench.target.backend].plugin.release

    def _clock_doubt(self, said_s: float, passed_s: float) -> str:
        """Why the clock of the device is not believed."""
        backend = self._bench.target.backend
        return (
            f"time_runs of backend {backend} ({self._release}) returned {1e3 * said_s:.3g} ms for a run, but "
            f"{1e3 * passed_s:.3g} ms passed on the wall clock: optim timed every model by the wall clock instead"
        )


def late_text(reason: str) -> str:
    """What became of a model whose process was stopped for the time of the race."""
    return f"timing ended before a model had run: its process {reason}"


def where_timed(bench: Workbench, module: ModuleType, request: object, kind: type[T], *, timed: bool = True) -> T:
    """What a race, or a profile, found, here or on a machine that has the targets; waiting for that is no search time.

    The module starts processes of its own, and takes its turn at the clock when it needs it.

    Raises:
        WorkerFailed: it did not come back, or what all is timed against does not run.
    """
    with bench.runner.noted(module.MODULE, request) as action:
        if bench.elsewhere is None:
            action.answer = answer = module.run(request, bench.turns)
            if isinstance(answer, race_job.Answer):
                action.processor_s = answer.processor_s
            return cast(T, answer)
        done = bench.elsewhere.do(Work(module.MODULE, to_wire(request), math.inf, timed=timed, parent=True))
        bench.turns.waited(done.waited_s)
        action.answer = done.answer
        return from_wire(kind, done.answer)
