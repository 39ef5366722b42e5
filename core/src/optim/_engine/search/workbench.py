"""Where the search has things done: what each job is told, where its answer is kept, and why it failed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path
from threading import BoundedSemaphore
from typing import Any

from optim._engine.compare.metric_spec import require_known
from optim._engine.compare.place import Place, Reference
from optim._engine.feeds.feedset import is_intact
from optim._engine.gate.drift import worst_drift
from optim._engine.gate.repair import Repair
from optim._engine.jobs import candidate as candidate_job
from optim._engine.jobs import ingest, prepare, refuse
from optim._engine.jobs.ingest import Answer as Ingested
from optim._engine.jobs.job import Answer, Job, Request
from optim._engine.jobs.runner import Runner, Say
from optim._engine.plugins.offers import OfferedPass
from optim._engine.plugins.registry import Registry
from optim._engine.search.keys import Keys
from optim._engine.search.restore import restore
from optim._engine.search.run_time import RunTime
from optim._engine.search.settings import RunSettings
from optim._engine.search.state import Candidate
from optim._engine.search.time_budget import GRACE_S, LEAST_REPAIR_S, REFUSAL_S
from optim._engine.search.time_estimate import in_time
from optim._engine.search.turns import Turns
from optim._engine.sensitivity import measure_job, repair_job
from optim._engine.sources.make import ExportedSource, make_graphs
from optim._engine.sources.pipeline import Choice
from optim._engine.standing import Teller
from optim._engine.store import Store
from optim.errors import OptimError
from optim.jobs.process import WorkerFailed
from optim.model import Model, TensorInfo
from optim.onnx.files import is_whole
from optim.passes import MODEL_STAGES

_AT_ONCE = 2
"""Candidates applied at the same time: with more, each has less of the processors and of the memory."""

_REPAIR_EVALUATIONS = 40
"""Evaluations of one repair: more find a smaller set of nodes, where there is time for them."""

_REPAIR_SAMPLES = 8
"""Samples that a repair measures on: with more, its set holds on all of them more often, and it takes longer."""

_REPLAYED_SAMPLES = 1
"""Samples that are replayed: outputs of every node are kept, so twice as many take twice the memory."""


@dataclass(frozen=True, slots=True)
class Tried:
    """A candidate job's answer, or why there is none; ``ran_out`` where it was stopped for its time."""

    answer: candidate_job.Answer | None
    failure: str
    seconds: float
    ran_out: bool = False


@dataclass(frozen=True, slots=True)
class Kept:
    """What a run was prepared with in so many seconds, and the folder of its arrays, among those of one key."""

    folder: str
    answer: prepare.Answer
    within_s: float | None = None


class Workbench:
    """The jobs of one run."""

    def __init__(
        self,
        settings: RunSettings,
        registry: Registry,
        store: Store,
        executor: Executor,
        say: Say,
        exported: ExportedSource | None = None,
    ) -> None:
        self.settings = settings
        self.exported = exported
        self.registry = registry
        self.store = store
        self.say = say
        self.teller = Teller(say)
        self.runner = Runner(store, say, fresh=settings.fresh, executor=executor)
        self.turns = Turns(f"optim on {settings.source.name}", say)
        self.run_time = RunTime(settings.search_seconds, self.turns.now)
        self.made: set[Path] = set()
        self._tried: dict[str, Tried] = {}
        self.recast_originals: dict[tuple[str, str], Candidate] = {}
        target = registry.target(settings.target)
        registry.backend(target.backend)
        self.target = target.plain
        self.place = Place(self.target, registry.offered("backend")[target.backend].plugin.name)
        self._metric = require_known(settings.metric, registry) if settings.metric else None
        self.keys = Keys(settings, registry, self.target, self._metric)
        self.prepared: prepare.Answer
        self.reference: Reference
        self.original: Candidate

    def ingest(self) -> Ingested:
        """Bring the source into the store; it is the original from then on."""
        found = self._ingest_source()
        self.original = Candidate(found.model, found.size_bytes)
        return found

    def ingest_file(self, path: Path) -> Ingested:
        """Bring a file into the store."""
        self.say(f"reading {path.name}")
        return self._need(ingest.JOB, ingest.Request(path.absolute(), self.store.models), "ingest")

    def _ingest_source(self, *, fresh: bool = False) -> Ingested:
        """The user's file, or the graph of what was exported."""
        if self.settings.export is None:
            return self.ingest_file(self.settings.source)
        if self.exported is None or fresh:
            self.exported = make_graphs(
                self.settings.export,
                self.target,
                self.registry,
                source_choice(self.settings),
                Runner(self.store, self.say, fresh=fresh or self.settings.fresh),
                timeout_s=self.settings.needed_timeout_s,
            )
        graphs = self.exported.graphs
        graph = self.exported.graph(self.settings.component) if self.settings.component else graphs[0]
        return Ingested(graph.model, graph.size_bytes, graph.operators)

    def check_options(self, model: Model) -> tuple[TensorInfo, ...]:
        """Have the passes that the user named look at their options and at the model.

        Returns:
            The model's inputs, in the sizes that these options leave.

        Raises:
            OptimError: what one of them refuses. One that breaks down is left to fail as a candidate.
        """
        asked = []
        for named in self.settings.named:
            offered = self.registry.find_pass(named.name, self.target)
            if named.options and offered.stage in MODEL_STAGES:
                asked.append(refuse.NamedOptions(named.name, offered.plugin.name, dict(named.options)))
        if not asked:
            return model.inputs
        try:
            request = refuse.Request(model, self.target, tuple(asked))
            return self.runner.call(refuse.JOB, request, timeout_s=REFUSAL_S).inputs
        except WorkerFailed as failed:
            if failed.error:
                raise failed.error from failed
            return model.inputs

    def prepare(
        self, model: Model, inputs: tuple[TensorInfo, ...] = (), within_s: float | None = None
    ) -> prepare.Answer:
        """Feeds, reference outputs and the tolerance; afterwards candidates can be tried.

        Args:
            model: the original.
            inputs: its inputs in the sizes that feeds are to have; empty: whatever it takes.
            within_s: seconds for its samples, see :class:`prepare.Request`.
        """
        self.say("running the original")
        inputs = inputs or model.inputs
        key = self.keys.prepare(model, inputs)
        folders = self.store.root / "references" / key

        def make(folder: Path) -> prepare.Answer:
            request = prepare.Request(
                model=model,
                inputs=inputs,
                place=self.place,
                data=self.settings.data,
                feeds=folder / "feeds",
                outputs=folder / "outputs",
                seed=self.settings.seed,
                most_samples=self.settings.most_samples,
                metric=self._metric,
                max_loss=self.settings.max_loss,
                within_s=within_s,
            )
            try:
                return self._need(prepare.JOB, request, "prepare")
            except OptimError as error:
                raise error.naming(_names_in_messages(model, self.settings.source)) from error

        def holds(kept: Kept) -> bool:
            same = not kept.answer.cut_short or kept.within_s == within_s
            return same and self._is_intact(folders / kept.folder)

        known = self.runner.known(key, Kept, holds=holds)
        if known is None:
            folder, self.prepared = self.store.new_folder("references", key, make)
            self.runner.keep(key, Kept(folder.name, self.prepared, within_s))
            self.store.supersede(folder)
        else:
            folder, self.prepared = folders / known.folder, known.answer
            os.utime(folders)
        self.keys.hold_to(self.prepared, model)
        task = self.prepared.task
        self.reference = Reference(
            folder / "feeds",
            folder / "outputs",
            model,
            self.prepared.compared,
            replace(task, rows=folder / "task.npy") if task else None,
        )
        return self.prepared

    def hold_to_time(self) -> None:
        """Compare on as many samples as the time that was given or announced allows."""
        self.prepared = in_time(self.prepared, self.run_time)
        self.keys.hold_to(self.prepared, self.original.model)
        self.run_time.compares(len(self.prepared.compared))

    def _is_intact(self, folder: Path) -> bool:
        """Whether a folder of references is as it was written; what is damaged is dropped."""
        if all(is_intact(folder / part) for part in ("feeds", "outputs")):
            return True
        if folder.is_dir():
            shelf = self.store.root / "references"
            self.store.drop("references", str(folder.relative_to(shelf)), "it is not as it was written")
        return False

    def try_all(
        self, wanted: Sequence[tuple[Candidate, OfferedPass, dict[str, Any]]], seconds: Callable[[int], float]
    ) -> list[Tried | None]:
        """Applies passes and judges what they made, two at the same time, the first first.

        Where one of them damaged a model of the store, all are tried again one by one: it may have been any of them.

        Args:
            wanted: candidates, and what is applied to each.
            seconds: what one of them, by its place, has when its turn comes; 0 and less: it is not tried.

        Returns:
            What came of each, in order; None for one whose turn came too late.
        """
        two_at_once = BoundedSemaphore(_AT_ONCE)

        def one(place: int) -> Tried | None:
            with two_at_once:
                left = seconds(place)
                return self._try(*wanted[place], left) if left > 0 else None

        found = self.runner.side_by_side(one, range(len(wanted)))
        broke = [on for (on, _, _), tried in zip(wanted, found, strict=True) if tried is not None and not tried.answer]
        damaged = [self.restore(candidate) for candidate in broke]
        if any(damaged) and len(wanted) > 1:
            return [
                tried and self.try_one(*again, self.settings.timeout_s, anew=True)
                for again, tried in zip(wanted, found, strict=True)
            ]
        return found

    def has_tried(self, candidate: Candidate, offered: OfferedPass, options: dict[str, Any]) -> bool:
        """Whether this run has applied a pass to a candidate already: trying it again takes no time."""
        return self.keys.candidate(candidate, offered, options) in self._tried

    def try_one(
        self,
        candidate: Candidate,
        offered: OfferedPass,
        options: dict[str, Any],
        timeout_s: float,
        *,
        anew: bool = False,
    ) -> Tried:
        """Applies one pass and judges the result on the explored samples; a pass that broke may have broken more."""
        tried = self._try(candidate, offered, options, timeout_s, anew=anew)
        if tried.answer is None:
            self.restore(candidate)
        return tried

    def _try(
        self,
        candidate: Candidate,
        offered: OfferedPass,
        options: dict[str, Any],
        timeout_s: float,
        *,
        anew: bool = False,
    ) -> Tried:
        key = self.keys.candidate(candidate, offered, options)
        self.teller.trying()
        if not anew and key in self._tried and _is_there(self._tried[key]):
            return replace(self._tried[key], seconds=0.0)
        tried = None if anew else self.runner.known(key, Tried, holds=_is_there)
        if tried is not None:
            self._note_made(tried)
            return tried
        self.say(f"trying {offered.name} {_short(options)}")
        request = self._candidate_request(candidate, offered, options, self.prepared.explored)
        started = time.monotonic()
        phases = ["applying"]
        try:
            answer = self.runner.call(
                candidate_job.JOB, request, timeout_s=timeout_s, on_event=lambda event: phases.append(event["event"])
            )
        except WorkerFailed as failed:
            if failed.error and failed.error.reference == "disk-full":  # of whatever is tried next, nothing would come
                raise failed.error from failed
            why, took = _candidate_failure(failed, phases[-1]), time.monotonic() - started
            return Tried(None, why, took, ran_out=failed.kind == "timeout")
        tried = self._tried[key] = Tried(answer, "", time.monotonic() - started)
        self._note_made(tried)
        self.runner.keep(key, tried)
        return tried

    def _note_made(self, tried: Tried) -> None:
        if tried.answer is not None and tried.answer.result.changed:
            self.made.add(tried.answer.result.model.path)

    def repair(
        self,
        candidate: Candidate,
        offered: OfferedPass,
        options: dict[str, Any],
        tried: Tried,
        limit: float,
        seconds: float,
    ) -> Repair | None:
        """Returns which nodes a candidate that broke the budget must leave alone; None where time ran out."""
        assert tried.answer is not None
        whole = worst_drift(tried.answer.comparisons).relative_l2
        samples = self.prepared.compared[:_REPAIR_SAMPLES]
        key = self.keys.repair(candidate, offered, options, limit, samples)
        known = self.runner.known(key, repair_job.Answer)
        if known is not None:
            return known.repair
        self.say(f"repairing {offered.name}: drift {whole:.3g}, {limit:.3g} allowed")
        asked = self._candidate_request(candidate, offered, options, samples)
        request = repair_job.Request(asked, whole, limit, _REPAIR_EVALUATIONS, seconds)
        try:
            evaluation_s = max(GRACE_S, 2 * tried.seconds)  # the one that was begun in time
            grace_s = min(evaluation_s, max(LEAST_REPAIR_S, self.run_time.left))
            answer = self.runner.call(repair_job.JOB, request, timeout_s=seconds + grace_s)
        except WorkerFailed:
            self.restore(candidate)
            return None
        if answer.repair is not None:  # with more time another run may find what this one did not
            self.runner.keep(key, answer)
        return answer.repair

    def sensitivity(
        self, candidate: Candidate, offered: OfferedPass, options: dict[str, Any], *, seconds: float, exact: bool
    ) -> measure_job.Answer:
        """What a lossy pass costs at each node of a model; see :mod:`optim._engine.sensitivity.measure_job`.

        Raises:
            OptimError: not-applicable, nothing-to-measure, measure-failed.
        """
        self.say(f"trying {offered.name} {_short(options)}")
        asked = self._candidate_request(candidate, offered, options, self.prepared.compared[:_REPAIR_SAMPLES])
        request = measure_job.Request(asked, self.prepared.explored[:_REPLAYED_SAMPLES], exact, seconds)
        return self._need(measure_job.JOB, request, "measure")

    def _candidate_request(
        self, candidate: Candidate, offered: OfferedPass, options: dict[str, Any], samples: tuple[int, ...]
    ) -> candidate_job.Request:
        lossy = candidate.is_lossy or offered.over_models.lossy
        return candidate_job.Request(
            model=candidate.model,
            name=offered.name,
            plugin=offered.plugin.name,
            options=options,
            place=self.place,
            reference=self.reference,
            samples=samples,
            interfaces=candidate.interfaces,
            store=self.store.models,
            seed=self.settings.seed,
            lossy=lossy,
            measure_task=lossy and self.reference.task is not None,
            given=candidate.given,
        )

    def restore(self, candidate: Candidate) -> bool:
        """Makes damaged files of the original and of a candidate anew; returns whether there were any."""

        def apply_again() -> Path:
            chain = self.original
            for step in candidate.steps:
                offered = self.registry.find_pass(step.pass_name, self.target)
                tried = self._try(chain, offered, step.options, self.settings.timeout_s, anew=True)
                if tried.answer is None:
                    break
                result = tried.answer.result
                chain = chain.after(step, result.model, tried.answer.size_bytes, result.interface)
            return chain.model.path

        def read_again() -> Path:
            self.say("a pass damaged the original in the cache")
            return self._ingest_source(fresh=True).model.path

        original = restore(self.original.model.path, read_again)
        return restore(candidate.model.path, apply_again) or original

    def _need(self, job: Job[Request, Answer], request: Request, what: str) -> Answer:
        """A job that the whole run depends on."""
        return self.runner.need(
            job,
            request,
            timeout_s=self.settings.needed_timeout_s,
            reference=f"{what}-failed",
            doing=f"{what} {self.settings.source.name}",
            release=self.registry.offered("backend")[self.target.backend].plugin.release,
        )


def source_choice(settings: RunSettings) -> Choice:
    """The user's word on passes that run before there is a model."""
    return Choice({named.name: named.options for named in settings.named}, settings.without)


def _names_in_messages(model: Model, source: Path) -> dict[str, str]:
    """The user's name for a file of the cache, which messages call by its digest or the first part of it."""
    return dict.fromkeys((model.path.name, f"{model.path.stem[:12]}{model.path.suffix}"), source.name)


def _is_there(tried: Tried) -> bool:
    """Whether the files of what an earlier run tried are still in the store."""
    return tried.answer is not None and is_whole(tried.answer.result.model.path)


def _candidate_failure(failed: WorkerFailed, phase: str) -> str:
    doing = {
        "applying": "while it was applied",
        "applied": "when the result was opened",
        "opened": "when the result was run",
    }
    if failed.kind == "raised":
        return failed.reason
    return f"{failed.reason} ({doing.get(phase, phase)})"


def _short(options: dict[str, Any]) -> str:
    text = ", ".join(f"{key}={value}" for key, value in options.items() if value not in (None, (), [], {}))
    return f"({text})" if text else ""
