"""A model prepared on its samples, for a person, a verb or a plugin that looks at it without a search."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from copy import copy
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, Self, TypeAlias, TypeVar, cast

from optim._engine.compare.original import next_numbers, with_other_padding
from optim._engine.gate.drift import OutputComparison, merge_samples, worst_drift
from optim._engine.gate.outputs import compare_sample
from optim._engine.jobs.job import Job
from optim._engine.runs.compare.prepared import Say, other_model, require_ready, require_timed, workbench_for
from optim._engine.runs.lab import nodes_timed
from optim._engine.runs.lab.setup import LabSetup
from optim._engine.search.lane_costs import LaneCosts
from optim._engine.search.measure.race_job import Effort
from optim._engine.search.measure.racing import Races, Wanted, where_timed
from optim._engine.search.rows import step_of
from optim._engine.search.settings import RunSettings
from optim._engine.search.state import Application, Candidate
from optim._engine.search.workbench import Workbench
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
    """A model that is ready for experiments: its samples, its outputs on them, and comparisons with it.

    ``optim.lab`` makes a lab. It has a place in the cache until you close it; use it in a ``with`` block.

    Attributes:
        original: the model.
        setup: facts for jobs in processes of their own.
        origin: origin of the samples.
        available: number of samples.
        open_s: seconds to open the model.
        run_s: seconds of a run.
        versions: versions of the libraries that run it, by distribution.
    """

    def __init__(self, bench: Workbench, first: Candidate, name: str, *, code: str = "") -> None:
        """Hold a prepared workbench; ``code`` is the version of the code whose jobs keep their answers here."""
        prepared, place = bench.prepared, bench.place
        self._bench, self._code, self._closing = bench, code, ExitStack()
        self.original = self._named(name, first, drift=0.0)
        compared_on = tuple(prepared.compared)
        feeds, store = bench.reference.feeds, bench.store.models
        self.setup = LabSetup(place.target, place.backend_plugin, feeds, compared_on, store, prepared.tolerance)
        self.origin, self.available = prepared.origin, prepared.available
        self.open_s, self.run_s, self.versions = prepared.open_s, prepared.run_s, prepared.versions

    @classmethod
    def of(cls, models: Sequence[Path], asked: RunSettings, say: Say) -> Self:
        """Prepares the first of some models.

        Args:
            models: the first one is prepared. optim also uses the samples of the run folders of the others.
            asked: target, samples and seed.
            say: gets progress, a line at a time.

        Raises:
            OptimError: the model, the samples or the target cannot be used.
        """
        with ExitStack() as opened:
            bench, first = opened.enter_context(workbench_for(models[0], asked, say, models[1:]))
            lab = cls(bench, first, str(models[0]))
            lab._closing = opened.pop_all()
        return lab

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Gives its place in the cache back. optim may then delete models of the lab."""
        self._closing.close()

    def __repr__(self) -> str:
        return f"Lab({self.original.name!r}, target={self.setup.target.name!r}, samples={self.available})"

    def sample(self, number: int = 0) -> Feeds:
        """Returns the inputs of one sample by name."""
        return self.setup.sample(number)

    def probes(self, number: int = 0) -> tuple[Feeds, ...]:
        """Returns variations of a sample for a comparison: moved last bits, and other values below padding."""
        feeds, inputs = self.sample(number), self.original.model.inputs
        return next_numbers(feeds), with_other_padding(feeds, inputs)

    def expected(self, number: int = 0) -> Outputs:
        """Returns the outputs of the original on one of ``optim.LabSetup.samples``."""
        return self._bench.reference.expected(number)

    def model(
        self, path: str | PathLike[str], *, renamed: bool = False, session: SessionConfig | None = None
    ) -> LabModel:
        """Reads a further model.

        Args:
            path: an ``.onnx`` file, a run folder, or a source, which optim exports.
            renamed: whether its inputs may have other names.
            session: settings to open it with; None: its own.

        Raises:
            OptimError[other-inputs]: the samples do not have all its inputs.
            OptimError: the model cannot be used.
        """
        found = other_model(self._bench, Path(path), renamed=renamed)
        if session is not None:
            found = replace(found, model=found.model.with_session(session))
        return self._named(str(path), found)

    def open(self, model: Chosen | None = None) -> AbstractContextManager[Session]:
        """Opens a model in this process, on the target: ``session.run(lab.sample())``.

        Args:
            model: a model of this lab, or a path; by default the original.
        """
        one = self._known(model)
        place = one._place or self._bench.place
        session: Session = place.backend().open(one.model, place.target)
        return cast("AbstractContextManager[Session]", session)

    def compare(self, model: Chosen) -> LabModel:
        """Returns the model with its drift from the original on all samples that a run compares.

        Raises:
            OptimError[other-failed]: the model does not run.
        """
        one = self._known(model)
        found = Races(self._bench).check(one._candidate, batched=False)
        return _with_drift(one, require_ready(found, one.model, Path(one.name)).comparisons)

    def compare_outputs(self, runs: Iterable[tuple[Feeds, Outputs, Outputs]]) -> tuple[OutputComparison, ...]:
        """Compares outputs of another program with those of the original, each over all runs, as the gate does.

        Args:
            runs: for each run its inputs, the expected outputs, and the outputs of the program.
        """
        reference, model = self._bench.reference, self.original.model
        variations = reference.variations()
        found: dict[str, OutputComparison] = {}
        for feeds, expected, computed in runs:
            one = compare_sample(expected, computed, feeds, model, variations)
            found = merge_samples(found, one)
        return tuple(found.values())

    def time(self, first: Chosen, second: Chosen, *, seconds: float = 5.0) -> LabTiming:
        """Times two models in turns, each in a process of its own.

        Args:
            first: model for the ratio to be relative to: a model of this lab, or a path.
            second: the other model.
            seconds: longest time for timing.

        Raises:
            OptimError[not-timed]: time means nothing on the target.
            OptimError[other-failed]: one of the models does not run.
        """
        require_timed(self._bench.target)
        bench = copy(self._bench)
        one, other = self._known(first), self._known(second)
        bench.original = one._candidate
        bench.baseline = one._place or bench.place
        bench.say("timing 2 models")
        effort = Effort(seconds, width=0.01, drop=False)
        base, (found,) = Races(bench).race([other._candidate], effort, Wanted())
        for model, result in ((one, base), (other, found)):
            require_ready(result, model.model, Path(model.name))
        assert found.ratio is not None
        ratio = found.ratio
        return LabTiming(ratio.value, ratio.interval, (base.latency_ms, found.latency_ms), ratio.rounds)

    def passes(self) -> tuple[type[Pass], ...]:
        """Returns the passes that can be tried here, first those of the plugin that runs the target."""
        own, offers = self.setup.backend_plugin, self._bench.registry.offers(self._bench.target)
        ordered = sorted(offers, key=lambda offered: offered.plugin.name != own)
        return tuple(one.over_models for one in ordered if one.stage in MODEL_STAGES)

    def try_pass(self, name: str, *, on: LabModel | None = None, **options: Any) -> LabModel:
        """Applies a pass as a run does: in a process of its own, with its result checked, opened and compared.

        Args:
            name: name of the pass.
            on: model to change; by default the original.
            options: options of the pass.

        Returns:
            The new model, with its drift on the samples that a run explores candidates on.

        Raises:
            OptimError[pass-failed]: the pass failed, or its result cannot be used.
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
        after = trial.candidate.after(step, result, tried.answer.size_bytes)
        steps = " ".join(one.pass_name for one in after.steps)
        made = self._named(f"{self.original.name} {steps}", after)
        return replace(_with_drift(made, tried.answer.comparisons), notes=result.notes, seconds=tried.seconds)

    def sensitivity(
        self, name: str, options: Mapping[str, Any] | None = None, *, seconds: float = 30.0, exact: bool = False
    ) -> Sensitivity:
        """Measures the cost of a lossy pass at each node that it can leave alone.

        Args:
            name: name of the pass.
            options: options of the pass.
            seconds: approximate time. If it is too short for every node, optim measures neighbours together.
            exact: apply the pass for every figure, instead of estimating by replaying nodes.

        Raises:
            OptimError: not-applicable, nothing-to-measure, measure-failed; there is no such pass or option.
        """
        return self._bench.sensitivity(self._trial(name, dict(options or {}), None), seconds=seconds, exact=exact)

    def profile(self, model: Chosen | None = None, *, seconds: float = 1.0) -> tuple[NodeTime, ...]:
        """Measures the times of a model's nodes, the longest first. They add up to a run without the profiler.

        Args:
            model: a model of this lab, or a path; by default the original.
            seconds: approximate time of the runs.

        Raises:
            OptimError[not-profiled]: the runtime of the target does not tell the times of nodes.
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
        """Measures the times of the nodes of some models on one sample. It may leave out the last ones.

        Args:
            models: models of this lab.
            seconds: approximate time of the runs of each.
            within_s: time limit for all of it, without the wait for the machine's clock.

        Raises:
            WorkerFailed: the job did not come back.
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
        """Does a job in a process of its own, on this machine or where the jobs of the run are done.

        Args:
            module: module of the job, with the class ``Request`` and ``run(request, channel)``.
            request: request of the job.
            answer: class of the answer.
            timeout_s: time limit in seconds.
            key: what the answer depends on, beside the samples and the code of the plugin; None: optim does not keep
                the answer.

        Raises:
            WorkerFailed: the job did not come back.
        """
        kept = None if key is None else self._bench.keys.found("of plugin", module, key, self._code)
        return self._bench.runner.call(Job(module, type(request), answer), request, timeout_s=timeout_s, key=kept)

    def need(self, module: str, request: object, answer: type[T], what: str, *, timed: bool = False) -> T:
        """Does a job like ``call``, and raises an error if the job fails.

        Args:
            module: module of the job.
            request: request of the job.
            answer: class of the answer.
            what: one verb for the job. For ``blame`` the error is ``blame-failed``.
            timed: whether the job takes times, so that it waits for the machine's clock.

        Raises:
            OptimError: the error of the job, or that the job did not come back.
        """
        bench = self._bench
        with bench.turns.turn() if timed else nullcontext():
            return bench.need(Job(module, type(request), answer), request, what)

    def say(self, text: str) -> None:
        """Tells the caller about progress."""
        self._bench.say(text)

    def notes_on(self, models: Sequence[LabModel]) -> tuple[str, ...]:
        """Returns a note for each result that another runtime runs here than the one it was made for."""
        here = self._bench.target.name
        return tuple(
            f"{one.name} was made for target {one.target}, and {here} ran it: this comparison holds for {here} alone; "
            f"--target {one.target} runs it there"
            for one in models
            if one.target
        )

    def _named(self, name: str, candidate: Candidate, drift: float | None = None) -> LabModel:
        place = self._bench.places.get(candidate.target, self._bench.place)
        model, size = candidate.model, candidate.size_bytes
        return LabModel(name, model, size, drift, target=candidate.target, _candidate=candidate, _place=place)

    def _known(self, model: Chosen | None) -> LabModel:
        if model is None:
            return self.original
        return model if isinstance(model, LabModel) else self.model(model)

    def _trial(self, name: str, options: dict[str, Any], on: LabModel | None) -> Application:
        offered = self._bench.registry.find_pass(name, self._bench.target)
        chosen = to_wire(parse_options(offered.over_models, options))
        return Application((on or self.original)._candidate, offered, chosen)


def _with_drift(one: LabModel, comparisons: Sequence[OutputComparison]) -> LabModel:
    return replace(one, drift=worst_drift(comparisons).relative_error, outputs=tuple(comparisons))
