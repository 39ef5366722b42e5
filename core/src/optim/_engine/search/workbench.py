"""Where candidates are tried and repaired: what each job is told, where its answer is kept, why it failed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import BoundedSemaphore
from typing import TYPE_CHECKING, Any, Self

from optim._engine.compare.recast import variant_models
from optim._engine.feeds.feedset import SYNTHESIZED
from optim._engine.gate.budget import Budget
from optim._engine.gate.drift import worst_drift
from optim._engine.jobs import candidate as candidate_job
from optim._engine.jobs import session_digests
from optim._engine.jobs.recorded import last_lines
from optim._engine.repair.costs import NodeCost
from optim._engine.repair.found import MeasuredSet, Repair
from optim._engine.search.deadline import GRACE_S
from optim._engine.search.preparation import Preparation
from optim._engine.search.restore import restore
from optim._engine.search.settings import RunSettings
from optim._engine.search.state import Application, Candidate, Step
from optim.goal import Basis, ModelFigures
from optim.jobs.process import WorkerFailed
from optim.jobs.wire import from_wire
from optim.model import Model
from optim.onnx.files import is_whole
from optim.target import Target

if TYPE_CHECKING:
    from optim.laboratory import Sensitivity

_AT_ONCE = 2
"""Candidates applied at the same time on one machine: with more, each has less of the processors and of the memory."""

_REPAIR_EVALUATIONS = 40
"""Evaluations of one repair: more find a smaller set of nodes, where there is time for them. Where size is the goal, no
race waits for that time, and each node less in the set is a smaller model: time alone bounds them."""

_REPAIR_SAMPLES = 8
"""Samples that a repair measures on: with more, its set holds on all of them more often, and it takes longer."""


@dataclass(frozen=True, slots=True)
class Applied:
    """A candidate job's answer, or why there is none.

    Attributes:
        answer: None where it failed.
        failure: why, one sentence.
        ran_out: whether it was stopped for its time.
        printed: the end of what a failing one printed.
        trace: of the exception that ended it.
        broke: whether the pass's own code broke.
    """

    answer: candidate_job.Answer | None
    failure: str
    seconds: float
    ran_out: bool = False
    printed: tuple[str, ...] = ()
    trace: str = ""
    broke: bool = False


@dataclass(eq=False)
class Workbench(Preparation):
    """Tries candidates of one run, once it is prepared.

    Attributes:
        made: the files of models that passes made.
    """

    made: set[Path] = field(default_factory=set, init=False)
    _tried: dict[str, Applied] = field(default_factory=dict, init=False)
    _stopped: dict[str, tuple[float, Applied]] = field(default_factory=dict, init=False)
    _node_costs: dict[str, dict[str, NodeCost]] = field(default_factory=dict, init=False)

    def on(self, target: Target, versions: Mapping[str, str], requirements: Sequence[str] = ()) -> Self:
        """The same run on another target."""
        other = super().on(target, versions, requirements)
        other._node_costs = {}
        return other

    def aim_at(self, settings: RunSettings) -> None:
        """Go on with other settings, before anything is prepared: what keys say follows them."""
        self.settings = settings
        self._settle(self.target)

    @property
    def aim(self) -> str:
        """What passes are told to make small: the figure of a bound that the original breaks, else of the goal.

        Only the size is known before anything is timed. With goal accuracy the other bounds count as broken.
        """
        objective, found = self.objective, ModelFigures(self.original.size_bytes)
        broken = [one for one in objective.bounds if one.excess(found)]
        if not broken and objective.is_accuracy:
            broken = [one for one in objective.bounds if one.objection(found)]
        return broken[0].figure if broken else self.settings.goal

    @property
    def budget(self) -> Budget:
        """What the user accepts; after :meth:`prepare`. Drift is foreseen on the user's own samples alone."""
        own = self.prepared.origin != SYNTHESIZED
        return self.settings.budget(self.prepared.tolerance, foresees=own)

    def try_all(self, wanted: Sequence[Application], seconds: Callable[[int], float]) -> list[Applied | None]:
        """Applies passes and judges what they made, so many at the same time as there is room for, the first first.

        Where one of them damaged a model of the store, all are tried again one by one: it may have been any of them.

        Args:
            wanted: what is tried.
            seconds: what one of them, by its place, has when its turn comes; 0 and less: it is not tried.

        Returns:
            What came of each, in order; None for one whose turn came too late.
        """
        some_at_once = BoundedSemaphore(self.elsewhere.at_once if self.elsewhere else _AT_ONCE)

        def one(place: int) -> Applied | None:
            with some_at_once:
                left = seconds(place)
                return self._try(wanted[place], left) if left > 0 else None

        found = self.runner.side_by_side(one, range(len(wanted)))
        broke = [trial for trial, tried in zip(wanted, found, strict=True) if tried is not None and not tried.answer]
        damaged = [self.restore(trial.candidate) for trial in broke]
        if any(damaged) and len(wanted) > 1:
            return [
                tried and self.try_one(again, self.settings.timeout_s, anew=True)
                for again, tried in zip(wanted, found, strict=True)
            ]
        return found

    def has_tried(self, trial: Application) -> bool:
        """Whether this run has applied a pass to a candidate already: trying it again takes no time."""
        return self.keys.candidate(trial) in self._tried

    def application(self, step: Step, on: Candidate) -> Application:
        """A step that is known, to be tried on a candidate."""
        return Application(on, self.registry.find_pass(step.pass_name, self.target), step.options)

    def try_step(self, step: Step, on: Candidate, timeout_s: float) -> Applied:
        """Applies a step that is known to a candidate, as :meth:`try_one` does."""
        return self.try_one(self.application(step, on), timeout_s)

    def try_one(self, trial: Application, timeout_s: float, *, anew: bool = False) -> Applied:
        """Applies one pass and judges the result on the explored samples; a pass that broke may have broken more."""
        tried = self._try(trial, timeout_s, anew=anew)
        if tried.answer is None:
            self.restore(trial.candidate)
        return tried

    def _try(self, trial: Application, timeout_s: float, *, anew: bool = False) -> Applied:
        key = self.keys.candidate(trial)
        self.teller.trying()
        if not anew and key in self._tried and _is_there(self._tried[key]):
            return replace(self._tried[key], seconds=0.0)
        not_enough_s, stopped = self._stopped.get(key, (0.0, None))
        if not anew and stopped is not None and timeout_s <= not_enough_s:  # it would be stopped again
            return replace(stopped, seconds=0.0)
        tried = None if anew else self.runner.known(key, Applied, holds=_is_there)
        if tried is not None:
            self._note_made(tried)
            return tried
        self.say(f"trying {trial.offered.name}{_short(trial.options)}")
        request = self._candidate_request(trial, self.prepared.explored)
        started = self.turns.now()
        phases = ["applying"]
        try:
            answer = self.runner.call(
                candidate_job.JOB, request, timeout_s=timeout_s, on_event=lambda event: phases.append(event["event"])
            )
        except WorkerFailed as failed:
            if failed.error and failed.error.reference == "disk-full":  # of whatever is tried next, nothing would come
                raise failed.error from failed
            why, took = _candidate_failure(failed, phases[-1]), self.turns.now() - started
            trace = failed.details if failed.kind == "raised" else ""
            broke = failed.is_defect and phases[-1] == "applying"
            said = tuple(last_lines(failed.printed))
            tried = Applied(None, why, took, ran_out=failed.kind == "timeout", printed=said, trace=trace, broke=broke)
            if failed.kind in ("limit", "timeout"):
                self._stopped[key] = (math.inf if failed.kind == "limit" else timeout_s), tried
            return tried
        tried = self._tried[key] = Applied(answer, "", self.turns.now() - started)
        self._note_made(tried)
        self.runner.keep(key, tried)
        return tried

    def _note_made(self, tried: Applied) -> None:
        if tried.answer is not None and tried.answer.result.changed:
            self.made.add(tried.answer.result.model.path)

    def repair(
        self, trial: Application, tried: Applied, limit: float, seconds: float, most_s: float = math.inf
    ) -> tuple[Repair | None, list[MeasuredSet]]:
        """Returns which nodes a candidate that broke the budget must leave alone, and the sets that were measured.

        There is None where none of them holds and gains anything.

        Args:
            trial: that candidate.
            tried: what came of it.
            limit: what it may drift.
            seconds: after which nothing further is begun.
            most_s: after which it is stopped whatever was begun.

        Raises:
            WorkerFailed: the repair failed before it had measured a set that holds.
            OptimError[disk-full]: nothing that is tried next would come to anything either.
        """
        from optim._engine.repair import repair_job  # what a run from the cache needs none of

        assert tried.answer is not None
        whole = worst_drift(tried.answer.comparisons).relative_error
        samples = self.prepared.compared[:_REPAIR_SAMPLES]
        key = self.keys.repair(trial, limit, samples)
        known = self.runner.known(key, repair_job.Answer)
        if known is not None:
            return known.repair, []
        self.say(f"repairing {trial.offered.name}: drift {whole:.3g}, {limit:.3g} allowed")
        asked = self._candidate_request(trial, samples)
        learned = self._node_costs.setdefault(_kind_of(trial), {})
        most = None if self.goal.basis is Basis.SIZE else _REPAIR_EVALUATIONS
        request = repair_job.Request(asked, whole, limit, most, min(seconds, most_s), dict(learned))
        held: list[Repair] = []
        measured: list[MeasuredSet] = []

        def note(event: Mapping[str, Any]) -> None:
            if event["event"] == repair_job.HOLDS:
                held.append(from_wire(Repair, event["repair"]))
            elif event["event"] == repair_job.COSTS:
                learned.update(from_wire(dict[str, NodeCost], event["costs"]))
            elif event["event"] == repair_job.MEASURED:
                measured.append(MeasuredSet(event["keep"], event["of"], event["drift"]))

        try:
            evaluation_s = max(GRACE_S, 2 * tried.seconds)  # the one that was begun in time
            whole_s = min(seconds + evaluation_s, most_s)
            answer = self.runner.call(repair_job.JOB, request, timeout_s=whole_s, on_event=note)
        except WorkerFailed as failed:
            if failed.error and failed.error.reference == "disk-full":
                raise failed.error from failed
            self.restore(trial.candidate)
            if not held and failed.kind != "timeout":
                raise
            return held[-1] if held else None, measured
        if answer.repair is not None and not answer.repair.rough:  # with more time another run may find a better one
            self.runner.keep(key, answer)
        return answer.repair, measured

    def session_digests(self, models: Sequence[Model], seconds: float) -> dict[str, str]:
        """What the runtime makes of models, by their digest; empty for one that it does not open.

        What an earlier run found takes no time. Without seconds, where the job fails, and where nothing is timed,
        models are left out.
        """
        if not self.target.timed:
            return {}
        keys = {model.digest: self.keys.session_digest(model) for model in models}
        found = {name: known for name, key in keys.items() if (known := self.runner.known(key, str)) is not None}
        models = [model for model in models if model.digest not in found]
        if not models or seconds <= 0:
            return found
        request = session_digests.Request(tuple(models), self.place, self.store.models, seconds)
        try:
            most_s = min(seconds + GRACE_S, max(seconds, self.deadline.end_s))
            answer = self.runner.call(session_digests.JOB, request, timeout_s=most_s)
        except WorkerFailed:  # it will fail as a candidate too, and say why
            return found
        for model, digest in zip(models, answer.digests, strict=True):
            found[model.digest] = digest
            if digest:
                self.runner.keep(keys[model.digest], digest)
        return found

    def sensitivity(self, trial: Application, *, seconds: float, exact: bool) -> Sensitivity:
        """What a lossy pass costs at each node of a model; see :mod:`optim._engine.repair.sensitivity_job`.

        Raises:
            OptimError: not-applicable, nothing-to-measure, measure-failed.
        """
        from optim._engine.repair import sensitivity_job

        self.say(f"trying {trial.offered.name}{_short(trial.options)}")
        asked = self._candidate_request(trial, self.prepared.compared[:_REPAIR_SAMPLES])
        replayed = self.prepared.explored[:1]  # outputs of every node are kept
        request = sensitivity_job.Request(asked, replayed, exact, seconds)
        return self.need(sensitivity_job.JOB, request, "measure")

    def _candidate_request(self, trial: Application, samples: tuple[int, ...]) -> candidate_job.Request:
        lossy = trial.candidate.is_lossy or trial.offered.over_models.lossy
        return candidate_job.Request(
            model=trial.candidate.model,
            name=trial.offered.name,
            plugin=trial.offered.plugin.name,
            options=trial.options,
            comparison=self.comparison(trial.candidate),
            samples=samples,
            store=self.store.models,
            seed=self.settings.seed,
            lossy=lossy,
            measure_task=lossy,
        )

    def restore(self, candidate: Candidate) -> bool:
        """Makes damaged files of the original and of a candidate anew; returns whether there were any."""

        def apply_again() -> Path:
            chain = self.original
            for step in candidate.steps:
                tried = self._try(self.application(step, chain), self.settings.timeout_s, anew=True)
                if tried.answer is None:
                    break
                chain = chain.after(step, tried.answer.result, tried.answer.size_bytes)
            return chain.model.path

        original = restore(self.original.model.path, self.ingest_again, self.store)
        return restore(candidate.model.path, apply_again, self.store) or original


def _is_there(tried: Applied) -> bool:
    """Whether the files of what an earlier run tried are still in the store."""
    if tried.answer is None:
        return False
    result = tried.answer.result
    variants = variant_models((result.interface,)) if result.interface else []
    return all(is_whole(model.path) for model in (result.model, *variants))


def _kind_of(trial: Application) -> str:
    """What trials have in common whose nodes cost about the same: the pass and its options, but for single nodes."""
    options = {name: value for name, value in trial.options.items() if name not in ("keep", "finer")}
    return f"{trial.offered.name} {sorted(options.items())!r}"


def _candidate_failure(failed: WorkerFailed, phase: str) -> str:
    doing = {
        "applying": "while it was applied",
        "applied": "when the result was opened",
        "opened": "when the result was run",
    }
    if failed.kind == "raised" or failed.call is not None:
        return failed.reason
    return f"{failed.reason} ({doing.get(phase, phase)})"


def _short(options: dict[str, Any]) -> str:
    text = ", ".join(f"{key}={value}" for key, value in options.items() if value not in (None, (), [], {}))
    return f" ({text})" if text else ""
