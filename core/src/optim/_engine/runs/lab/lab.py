"""A model prepared on its samples, for a person, a verb or a plugin that looks at it without a search."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from copy import copy
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, Self, TypeAlias, TypeVar, cast

from optim._engine.compare.padding import with_other_padding
from optim._engine.compare.rounding import next_numbers
from optim._engine.gate.drift import OutputComparison, merge_samples, worst_drift
from optim._engine.gate.outputs import compare_sample
from optim._engine.jobs.job import Job
from optim._engine.plugins.offers import OfferedPass
from optim._engine.runs.compare.conditions import (
    Conditions,
    notes_on_targets,
    other_model,
    require_timed,
    workbench_for,
)
from optim._engine.runs.lab import nodes_timed
from optim._engine.runs.lab.setup import LabSetup
from optim._engine.search.effort import Effort
from optim._engine.search.lane_costs import LaneCosts
from optim._engine.search.measure.racing import Wanted, check_candidate, race_candidates, where_timed
from optim._engine.search.rows import step_of
from optim._engine.search.state import Candidate, LaneResult, Trial
from optim._engine.search.workbench import Workbench
from optim._engine.store import names_in_messages
from optim._engine.timing import nodes_job
from optim.arrays import Feeds, Outputs
from optim.backend import Session
from optim.errors import OptimError
from optim.jobs.process import WorkerFailed
from optim.jobs.wire import to_wire
from optim.laboratory import LabModel, LabTiming, NodeTime, Sensitivity
from optim.model import SessionConfig
from optim.options import parse_options
from optim.passes import MODEL_STAGES, Pass

T = TypeVar("T")

Chosen: TypeAlias = LabModel | str | PathLike[str]
"""A model of a lab, or the path of one."""


class Lab:
    """A model that is prepared: it has samples and its outputs on them, and everything here is held against those.

    :func:`optim.lab` makes one. It holds a place in the cache until it is closed; it is a context manager.

    Attributes:
        original: the model.
        setup: what jobs in processes of their own are told.
        origin: where its samples came from.
        available: samples that there are.
        open_s: seconds that opening the model took.
        run_s: seconds of a run.
        versions: of the libraries that run it, by distribution.
    """

    def __init__(self, bench: Workbench, first: Candidate, name: str, *, code: str = "") -> None:
        """Hold a workbench.

        Args:
            bench: prepared.
            first: the original, with the session settings that it came with.
            name: of it.
            code: version of the code whose jobs keep their answers here.
        """
        prepared, place = bench.prepared, bench.place
        self._bench, self._code, self._closing = bench, code, ExitStack()
        self.original = self._named(name, first, drift=0.0)
        compared_on = tuple(prepared.compared)
        feeds, store = bench.reference.feeds, bench.store.models
        self.setup = LabSetup(place.target, place.backend_plugin, feeds, compared_on, store, prepared.tolerance)
        self.origin, self.available = prepared.origin, prepared.available
        self.open_s, self.run_s, self.versions = prepared.open_s, prepared.run_s, prepared.versions

    @classmethod
    def of(cls, models: Sequence[Path], conditions: Conditions) -> Self:
        """Prepare the first of some models.

        Args:
            models: the first is prepared; samples of the others' run folders serve too.
            conditions: under which it runs.

        Raises:
            OptimError: the model, the samples or the target cannot be used.
        """
        with ExitStack() as opened:
            bench, first = opened.enter_context(workbench_for(models[0], conditions, beside=models[1:]))
            lab = cls(bench, first, str(models[0]))
            lab._closing = opened.pop_all()
        return lab

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give its place in the cache back; models of the lab may be deleted after that."""
        self._closing.close()

    def __repr__(self) -> str:
        return f"Lab({self.original.name!r}, target={self.setup.target.name!r}, samples={self.available})"

    def sample(self, number: int = 0) -> Feeds:
        """The inputs of one sample, by name."""
        return self.setup.sample(number)

    def probes(self, number: int = 0) -> tuple[Feeds, ...]:
        """What a comparison runs the original on beside a sample: its last bits moved, other values below padding."""
        feeds, inputs = self.sample(number), self.original.model.inputs
        return next_numbers(feeds), with_other_padding(feeds, inputs)

    def expected(self, number: int = 0) -> Outputs:
        """What the original computed on one of :attr:`optim.LabSetup.samples`."""
        return self._bench.reference.expected(number)

    def model(
        self, path: str | PathLike[str], *, renamed: bool = False, session: SessionConfig | None = None
    ) -> LabModel:
        """A further model.

        Args:
            path: an ``.onnx`` file, a run folder, or a source, which is exported.
            renamed: its inputs may have other names.
            session: settings that it is opened with; None: its own.

        Raises:
            OptimError[other-inputs]: the samples lack an input of it.
            OptimError: it cannot be used.
        """
        found = other_model(self._bench, Path(path), renamed=renamed)
        if session is not None:
            found = replace(found, model=found.model.with_session(session))
        return self._named(str(path), found)

    def open(self, model: Chosen | None = None) -> AbstractContextManager[Session]:
        """A session of a model in this process, on the target: ``session.run(lab.sample())``.

        Args:
            model: of this lab, or its path; by default the original.
        """
        one = self._known(model)
        place = one._place or self._bench.place
        session: Session = place.backend().open(one.model, place.target)
        return cast("AbstractContextManager[Session]", session)

    def compare(self, model: Chosen) -> LabModel:
        """The same model, with its drift from the original on all samples that a run compares.

        Raises:
            OptimError[other-failed]: it does not run.
        """
        one = self._known(model)
        found = check_candidate(self._bench, one._candidate, batched=False)
        return _with_drift(one, self._ready(one, found))

    def compare_outputs(self, runs: Iterable[tuple[Feeds, Outputs, Outputs]]) -> tuple[OutputComparison, ...]:
        """What another program computed, beside what the original does: each output over all runs, as the gate counts.

        Args:
            runs: of each what it was fed, what is expected, and what the program computed.
        """
        reference, model = self._bench.reference, self.original.model
        variations = reference.variations()
        found: dict[str, OutputComparison] = {}
        for feeds, expected, computed in runs:
            one = compare_sample(expected, computed, feeds, model.inputs, model.outputs, variations)
            found = merge_samples(found, one)
        return tuple(found.values())

    def time(self, first: Chosen, second: Chosen, *, seconds: float = 5.0) -> LabTiming:
        """Time two models in turns, each in a process of its own.

        Args:
            first: what the ratio is to: a model of this lab, or a path.
            second: the other.
            seconds: of timing, at most.

        Raises:
            OptimError[not-timed]: time means nothing on the target.
            OptimError[other-failed]: one of them does not run.
        """
        require_timed(self._bench.target)
        bench = copy(self._bench)
        one, other = self._known(first), self._known(second)
        bench.original = one._candidate
        bench.baseline = one._place or bench.place
        bench.say("timing 2 models")
        effort = Effort(seconds, least_rounds=10, most_rounds=40, width=0.01, drop=False)
        base, (found,) = race_candidates(bench, [other._candidate], effort, Wanted("bench"))
        self._ready(one, base)
        self._ready(other, found)
        assert found.ratio is not None
        ratio = found.ratio
        return LabTiming(ratio.value, ratio.interval, (base.latency_ms, found.latency_ms), ratio.rounds)

    def passes(self) -> tuple[type[Pass], ...]:
        """The passes over models that can be tried here; those of the plugin that runs the target come first."""
        offers = [offered for offered in self._bench.registry.offers(self._bench.target) if _is_over_models(offered)]
        own = self.setup.backend_plugin
        return tuple(one.over_models for one in sorted(offers, key=lambda offered: offered.plugin.name != own))

    def try_pass(self, name: str, *, on: LabModel | None = None, **options: Any) -> LabModel:
        """Apply a pass as a run does: in a process of its own, with its result checked, opened and compared.

        Args:
            name: of the pass.
            on: the model that it is applied to; by default the original.
            options: of the pass.

        Returns:
            What it made, with its drift on the samples that a run explores candidates on.

        Raises:
            OptimError[pass-failed]: it failed, or what it made cannot be used.
            OptimError: there is no such pass or option.
        """
        trial = self._trial(name, options, on)
        bench, before = self._bench, on or self.original
        tried = bench.try_one(trial, bench.settings.timeout_s)
        if tried.answer is None:
            raise OptimError(
                "pass-failed",
                f"{name} failed on {before.name}",
                tried.failure,
                f"optim passes show {name}   # its options",
                trial.offered.plugin.release,
            )
        result = tried.answer.result
        if not result.changed:
            return replace(before, changed=False, notes=result.notes, seconds=tried.seconds)
        step = step_of(trial.offered, trial.options)
        after = trial.candidate.after(step, result.model, tried.answer.size_bytes, result.interface)
        steps = " ".join(one.pass_name for one in after.steps)
        made = self._named(f"{self.original.name} {steps}", after)
        return replace(_with_drift(made, tried.answer.comparisons), notes=result.notes, seconds=tried.seconds)

    def sensitivity(
        self, name: str, options: Mapping[str, Any] | None = None, *, seconds: float = 30.0, exact: bool = False
    ) -> Sensitivity:
        """What a lossy pass costs at each node that it can leave alone.

        Args:
            name: of the pass.
            options: of it.
            seconds: about how long; where that is too short for every node, neighbours are measured together.
            exact: apply the pass for every figure, instead of estimating by replaying nodes.

        Raises:
            OptimError: not-applicable, nothing-to-measure, measure-failed; there is no such pass or option.
        """
        return self._bench.sensitivity(self._trial(name, dict(options or {}), None), seconds=seconds, exact=exact)

    def profile(self, model: Chosen | None = None, *, seconds: float = 1.0) -> tuple[NodeTime, ...]:
        """The times of a model's nodes, the dearest first; they add up to a run without the profiler.

        Args:
            model: of this lab, or its path; by default the original.
            seconds: of runs, about.

        Raises:
            OptimError[not-profiled]: the target's runtime says nothing of its nodes.
        """
        try:
            (nodes,) = self.profiles([self._known(model)], seconds=seconds, within_s=self._bench.settings.timeout_s)
        except WorkerFailed as failed:
            raise failed.error or OptimError(
                "profile-failed",
                f"could not profile {self.original.name}",
                failed.reason,
                "optim profile MODEL --target cpu",
            ) from failed
        return nodes

    def profiles(
        self, models: Sequence[LabModel], *, seconds: float, within_s: float
    ) -> tuple[tuple[NodeTime, ...], ...]:
        """The times of the nodes of some models on one sample; it may end before the last that is no original.

        Args:
            models: of this lab.
            seconds: of runs of each, about.
            within_s: for all of it, the wait for the machine's clock left out.

        Raises:
            WorkerFailed: it did not come back.
        """
        bench, sample = self._bench, self._bench.prepared.timed[0]
        asked = [
            nodes_job.Fed(one.model, one._place or bench.place, one._candidate.interfaces if one._candidate else ())
            for one in models
        ]
        seconds *= LaneCosts.pace
        ran = [(one.model.digest, one.place.target) for one in asked]
        key = bench.keys.found("node-times", ran, sample, seconds, bench.machine)
        known = bench.runner.known(key, nodes_timed.Answer)
        if known is not None:
            return known.models
        request = nodes_job.Request(tuple(asked), bench.reference.feeds, sample, seconds)
        answer = where_timed(bench, nodes_timed, nodes_timed.Request(request, within_s), nodes_timed.Answer)
        bench.runner.count += 1
        bench.runner.keep(key, answer)
        return answer.models

    def call(self, module: str, request: object, answer: type[T], *, timeout_s: float, key: object = None) -> T:
        """Have a job done in a process of its own, on this machine or where the jobs of the run are done.

        Args:
            module: of the job: it has the class ``Request`` of the request, and ``run(request, channel)``.
            request: what it is told.
            answer: class of what it answers.
            timeout_s: seconds that it may take.
            key: what its answer depends on, the samples and the code of the plugin left out; None: it is not kept.

        Raises:
            WorkerFailed: it did not come back.
        """
        kept = None if key is None else self._bench.keys.found("of plugin", module, key, self._code)
        return self._bench.runner.call(Job(module, type(request), answer), request, timeout_s=timeout_s, key=kept)

    def need(self, module: str, request: object, answer: type[T], what: str, *, timed: bool = False) -> T:
        """As :meth:`call`, for a job that all depends on.

        Args:
            module: of the job.
            request: what it is told.
            answer: class of what it answers.
            what: the job does, one verb: of ``blame`` the error is ``blame-failed``.
            timed: whether it takes times: it waits for the machine's clock.

        Raises:
            OptimError: the job's own, or that it did not come back.
        """
        bench = self._bench
        with bench.turns.turn() if timed else nullcontext():
            return bench.need(Job(module, type(request), answer), request, what)

    def say(self, text: str) -> None:
        """Tell whoever waits what is going on."""
        self._bench.say(text)

    def notes_on(self, models: Sequence[LabModel]) -> tuple[str, ...]:
        """A note for each result that another runtime runs here than the one that it was made for."""
        paths = [Path(one.name) for one in models]
        return notes_on_targets(self._bench, paths, [one._candidate for one in models])

    def _named(self, name: str, candidate: Candidate, drift: float | None = None) -> LabModel:
        place = self._bench.places.get(candidate.target, self._bench.place)
        model, size = candidate.model, candidate.size_bytes
        return LabModel(name, model, size, drift, target=candidate.target, _candidate=candidate, _place=place)

    def _known(self, model: Chosen | None) -> LabModel:
        if model is None:
            return self.original
        return model if isinstance(model, LabModel) else self.model(model)

    def _trial(self, name: str, options: dict[str, Any], on: LabModel | None) -> Trial:
        offered = self._bench.registry.find_pass(name, self._bench.target)
        chosen = to_wire(parse_options(offered.over_models, options))
        return Trial((on or self.original)._candidate, offered, chosen)

    def _ready(self, one: LabModel, found: LaneResult) -> Sequence[OutputComparison]:
        if found.ready is None or found.failure:
            raise OptimError(
                "other-failed",
                f"{one.name} does not run on the same samples",
                found.failure,
                "optim inspect shows its inputs and operators",
            ).naming(names_in_messages(one.model.path, Path(one.name)))
        return found.ready.comparisons


def _is_over_models(offered: OfferedPass) -> bool:
    return offered.stage in MODEL_STAGES


def _with_drift(one: LabModel, comparisons: Sequence[OutputComparison]) -> LabModel:
    return replace(one, drift=worst_drift(comparisons).relative_error, outputs=tuple(comparisons))
