"""Where candidates are tried: what each job is told, where its answer is kept, why it failed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import BoundedSemaphore
from typing import TYPE_CHECKING, Any

from optim._engine.compare.comparison import variant_models
from optim._engine.feeds.feedset import SYNTHESIZED
from optim._engine.gate.budget import Budget
from optim._engine.jobs import candidate as candidate_job
from optim._engine.jobs import session_digests
from optim._engine.jobs.recorded import last_lines
from optim._engine.search.board import Applied
from optim._engine.search.deadline import GRACE_S
from optim._engine.search.preparation import Preparation
from optim._engine.search.restore import restore
from optim._engine.search.settings import RunSettings
from optim._engine.search.state import Application, Candidate, Step
from optim.goal import ModelFigures
from optim.jobs.process import WorkerFailed
from optim.model import Model
from optim.onnx.files import is_whole

if TYPE_CHECKING:
    from optim.laboratory import Sensitivity

_AT_ONCE = 2
"""Candidates applied at the same time on one machine: with more, each has less of the processors and of the memory."""


REPAIR_SAMPLES = 8
"""Samples that a repair measures on: with more, its set holds on all of them more often, and it takes longer."""


@dataclass(eq=False)
class Workbench(Preparation):
    """Tries candidates of one run, once it is prepared.

    Attributes:
        made: the files of models that passes made.
    """

    made: set[Path] = field(default_factory=set, init=False)
    _tried: dict[str, Applied] = field(default_factory=dict, init=False)

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
        tried = None if anew else self.runner.known(key, Applied, holds=_is_there)
        if tried is not None:
            self._note_made(tried)
            return tried
        self.say(f"trying {trial.offered.name}{_short(trial.options)}")
        request = self.candidate_request(trial, self.prepared.explored)
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
            return Applied(None, why, took, ran_out=failed.kind == "timeout", printed=said, trace=trace, broke=broke)
        tried = self._tried[key] = Applied(answer, "", self.turns.now() - started)
        self._note_made(tried)
        self.runner.keep(key, tried)
        return tried

    def _note_made(self, tried: Applied) -> None:
        if tried.answer is not None and tried.answer.result.changed:
            self.made.add(tried.answer.result.model.path)

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
        asked = self.candidate_request(trial, self.prepared.compared[:REPAIR_SAMPLES])
        replayed = self.prepared.explored[:1]  # outputs of every node are kept
        request = sensitivity_job.Request(asked, replayed, exact, seconds)
        return self.need(sensitivity_job.JOB, request, "measure")

    def candidate_request(self, trial: Application, samples: tuple[int, ...]) -> candidate_job.Request:
        """What a job is asked that applies a pass and compares the result on some samples."""
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
