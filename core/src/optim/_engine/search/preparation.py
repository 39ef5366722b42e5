"""Work of a run before the search: read the source, ask the passes that the user named, run the original."""

from __future__ import annotations

import math
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Self

from optim._engine.backends.held import needs_device_check, of_original
from optim._engine.compare.comparison import Comparison
from optim._engine.compare.metric_spec import require_known
from optim._engine.compare.place import Place, Reference
from optim._engine.compare.unseen import unseen_outputs
from optim._engine.feeds.feedset import is_intact
from optim._engine.goals.known import find_goal
from optim._engine.graphs.user_files import check_file, stamps_of
from optim._engine.jobs import ingest, offer, prepare, refuse
from optim._engine.jobs.ingest import Answer as Ingested
from optim._engine.jobs.job import Answer, Job, Request
from optim._engine.jobs.prepare import Answer as Prepared
from optim._engine.jobs.runner import Runner, Say
from optim._engine.machine import instruction_sets
from optim._engine.plugins.registry import Registry
from optim._engine.search.deadline import GRACE_S, LEAST_S, Deadline
from optim._engine.search.keys import Keys, machine_key
from optim._engine.search.objective import Objective
from optim._engine.search.restore import is_as_it_was
from optim._engine.search.settings import RunSettings
from optim._engine.search.state import Candidate
from optim._engine.search.time_estimate import in_time
from optim._engine.search.turns import Turns
from optim._engine.sources.export_file import KnownExport, known_export
from optim._engine.sources.exported import Choice, ExportConditions, ExportedGraph, find_pipeline
from optim._engine.standing import Teller
from optim._engine.store import Store, names_in_messages
from optim.backend import Backend
from optim.errors import ExitStatus, OptimError
from optim.goal import Goal
from optim.jobs.doing import PluginCall
from optim.jobs.process import WorkerFailed
from optim.model import Model, TensorInfo
from optim.onnx.operators import work_shares
from optim.passes import MODEL_STAGES
from optim.target import Target
from optim.workplace import Workplace

if TYPE_CHECKING:
    from optim._engine.jobs import arrival

_RUNS_TO_FIND_ANYTHING = 12
"""Runs of the original without which no search finds anything: a reference, a candidate, a race of three rounds."""

_SIZES_OF_SAMPLES = (
    "there was no time to run the original in sizes that no sample has, so results are compared in those of the "
    "samples alone; give more with --search-seconds"
)

_GIVEN = "given"
"""Below a folder of references: the user's feeds, while other machines read them."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What a run was prepared with in so many seconds, and the folder of its arrays, among those of one key."""

    folder: str
    answer: Prepared
    within_s: float | None = None


@dataclass(eq=False)
class Preparation:
    """What a run works with, and what it does before candidates can be tried.

    Attributes:
        baseline: where the original is run that all else is held against and timed beside.
        places: where candidates run that name another target than this run's.
        entry: what is opened in place of the original, where the target does not take it as it is.
        elsewhere: the machines that do the jobs; None: this one does.
        machine: where things are timed, for keys.
    """

    settings: RunSettings
    registry: Registry
    store: Store
    executor: Executor
    say: Say
    exported: ExportedGraph | None = None
    elsewhere: Workplace | None = None

    def __post_init__(self) -> None:
        settings, elsewhere = self.settings, self.elsewhere
        self.teller = Teller(self.say)
        what, now = f"optim on {settings.source.name}", time.monotonic if elsewhere is None else elsewhere.now
        self.turns = Turns(what, self.say, now=now, elsewhere=elsewhere is not None)
        fresh, executor, waits = settings.fresh, self.executor, self.turns
        self.runner = Runner(self.store, self.say, fresh=fresh, executor=executor, elsewhere=elsewhere, waits=waits)
        self.machine = machine_key() if elsewhere is None else elsewhere.machine
        self.deadline = Deadline(settings.search_seconds, self.turns.now)
        self._metric = require_known(settings.metric, self.registry) if settings.metric else None
        self._settle(self.registry.target(settings.target))
        self.baseline = self.place
        self.places: dict[str, Place] = {}
        self.prepared: Prepared
        self.reference: Reference
        self.original: Candidate
        self.entry: Model | None = None
        self._fixing: tuple[offer.PassQuestion, ...] = ()
        self._inputs: tuple[TensorInfo, ...] = ()
        self.work: Mapping[str, float] = {}

    @property
    def goal(self) -> Goal:
        """What the user asked for."""
        return find_goal(self.registry, self.settings.goal)

    @property
    def objective(self) -> Objective:
        """What is made small on the target."""
        return Objective(self.goal, self.target.timed, self.settings.bounds)

    @property
    def known(self) -> KnownExport | None:
        """What is known of the export that the original comes from; None if it comes from none."""
        return self.exported.known if self.exported is not None else known_export(self.settings.source)

    @property
    def facts(self) -> Mapping[str, Any]:
        """What is known of the source that the original was exported from."""
        return known.content.facts if (known := self.known) is not None else {}

    def _settle(self, target: Target) -> None:
        self.place = self.place_of(target)
        self.target = self.place.target
        self.device_free_bytes = target.free_memory or (lambda: None)
        libraries = self.elsewhere.libraries if self.elsewhere is not None else {}
        kernels = " ".join(instruction_sets()) if self.elsewhere is None else self.machine
        self.keys = Keys(self.settings, self.registry, self.target, self._metric, self.machine, libraries, kernels)

    def place_of(self, target: Target) -> Place:
        """Where models are opened for a target."""
        self.registry.backend(target.backend)
        return Place(target.plain, self.registry.offered("backend")[target.backend].plugin.name)

    def speak_for(self, target: str) -> None:
        """Say from now on which of several targets it is about."""
        say = self.say
        self.say = lambda text: say(f"{target}: {text}")

    def arrive(self, target: Target) -> arrival.Answer:
        """Run the original on another target, and compare; after :meth:`prepare`."""
        from optim._engine.jobs import arrival

        self.say(f"running the original on {target.name}")
        place = self.place_of(target)
        comparison = Comparison(place, self.reference, ())
        try:
            return self.runner.need(
                arrival.JOB,
                arrival.Request(self.original.model, comparison, self.prepared.explored),
                timeout_s=self.settings.timeout_s,
                reference="arrival-failed",
                doing=f"run {self.settings.source.name} on {target.name}",
                release=self.registry.offered("backend")[target.backend].plugin.release,
            )
        except OptimError as error:
            raise error.naming(names_in_messages(self.original.model.path, self.settings.source)) from error

    def on(self, target: Target, versions: Mapping[str, str], requirements: Sequence[str] = ()) -> Self:
        """The same run on another target: it shares all but where candidates run, and its baseline stays."""
        other = copy(self)
        other._settle(target)
        other.speak_for(target.name)
        other.original = replace(self.original, target=target.name)
        other.prepared = replace(self.prepared, versions=dict(versions), requirements=tuple(requirements))
        other.keys.hold_beside(self.keys, other.prepared)
        return other

    def ingest(self) -> Ingested:
        """Bring the source into the store; it is the original from then on."""
        found = self._ingest_source()
        self.original = Candidate(found.model, found.size_bytes)
        self.work = found.work
        return found

    def ingest_file(self, path: Path, *, fresh: bool = False) -> Ingested:
        """Bring a file into the store; one that was brought before, and looks as it did then, is not read again."""
        check_file(path)
        stamps = None if fresh else stamps_of([path])
        key = self.keys.ingest(stamps) if stamps else ""
        known = self.runner.known(key, Ingested, holds=partial(is_as_it_was, self.store)) if key else None
        if known is not None:
            return known
        self.say(f"reading {path.name}")
        began = self.deadline.now()
        answer = self.need(ingest.JOB, ingest.Request(path.absolute(), self.store.models), "ingest")
        self.deadline.note_reading(self.deadline.now() - began)
        if key and answer.read:
            self.runner.keep(key, answer)
        return answer

    def ingest_again(self) -> Path:
        """Bring the source into the store once more, after its graph or its weights there were damaged."""
        self.say("a pass damaged the original in the cache")
        return self._ingest_source(fresh=True).model.path

    def _ingest_source(self, *, fresh: bool = False) -> Ingested:
        """The user's file, or the graph of what was exported."""
        if self.settings.export is None:
            return self.ingest_file(self.settings.source, fresh=fresh)
        if self.exported is None or fresh:
            made = export_source(self.settings, self.registry, self.store, self.say, self.target, fresh=fresh)
            self.exported = next(one for one in made if self.settings.component in ("", one.known.component))
        graph = self.exported
        return Ingested(graph.model, graph.size_bytes, graph.operators, work_shares(graph.model.path))

    def comparison(self, candidate: Candidate) -> Comparison:
        """How the model at the end of a chain is held against the original; after :meth:`prepare`."""
        place = self.bounded(self.places.get(candidate.target, self.place))
        return Comparison(place, self.reference, candidate.interfaces, candidate.given)

    def bounded(self, place: Place, calls: int = 1) -> Place:
        """The same, with an end to calls that hang, so many of which fit into the run; after :meth:`prepare`."""
        return replace(place, bounds=of_original(self.prepared.open_s, self.prepared.run_s, self.deadline.left / calls))

    def check_options(self) -> None:
        """Have the passes that must hold look at their options and at the original; these leave sizes of its inputs."""
        required = dict.fromkeys(name for name in self.target.requires if name not in self.settings.without)
        asked_for = (*self.settings.named, *(self.settings.chain or ()))
        named = {one.name: dict(one.options) if one.options else None for one in asked_for}
        written = {one.name for one in self.settings.named if not (one.carried or self.settings.component)}
        asked = []
        there = {offered.name for offered in self.registry.offers(self.target)}
        for name, options in {**required, **named}.items():
            offered = self.registry.find_pass(name, self.target) if name in there else None  # another target has it
            if offered is not None and offered.stage in MODEL_STAGES:
                asked.append(refuse.NamedOptions(name, offered.plugin.name, options, name in written, name in required))
        if not asked:
            return
        request = refuse.Request(self.original.model, self.target, tuple(asked), self.settings.data is not None)
        most_s = max(GRACE_S, self.deadline.for_original)
        answer = self.runner.ask_passes(refuse.JOB, request, most_s, self.settings.source.name)
        for note in answer.notes:
            self.say(note)
        fixing = (one for one in asked if one.name in answer.fixing)
        self._fixing = tuple(offer.PassQuestion(one.name, one.plugin, one.options) for one in fixing)
        self._inputs = answer.inputs

    def prepare(self, within_s: float | None = None) -> None:
        """Feeds, reference outputs and the tolerance of the original; afterwards candidates can be tried.

        Args:
            within_s: seconds for its samples, see :class:`prepare.Request`.
        """
        model = self.original.model
        self._inputs = self._inputs or model.inputs
        runs_here = self.registry.backend(self.target.backend).open_reference is Backend.open_reference
        if runs_here and any(one.name in self.target.requires for one in self._fixing):
            self.entry = self._entered(model)
        try:
            self._prepare(model, within_s)
        except OptimError as error:
            may_help = self._fixing and any(info.is_dynamic for info in model.inputs) and not _ran_out(error)
            if self.entry is not None or not may_help:
                raise
            self.say(f"{self.target.name} does not accept the original: fixing its sizes first")
            self.entry = self._entered(model)
            if self.entry is None:
                raise
            self._prepare(model, within_s)

    def _entered(self, model: Model) -> Model | None:
        """The original with the passes that fix sizes; None where none of them has anything to do."""
        from optim._engine.jobs import entry

        with TemporaryDirectory(dir=self.store.root, prefix="entry-") as folder:
            request = entry.Request(
                model,
                self._inputs,
                self.target,
                self._fixing,
                self.settings.data,
                Path(folder) / "feeds",
                self.store.models,
                self.settings.seed,
            )
            most_s = min(self.settings.needed_timeout_s, self.deadline.most_for_original(bool(self.settings.named)))
            made = self.runner.ask_passes(entry.JOB, request, most_s, self.settings.source.name).model
        return made if made.digest != model.digest else None

    def _prepare(self, model: Model, within_s: float | None) -> None:
        self.say("running the original")
        key = self.keys.prepare(model, self._inputs, self.entry)
        folders = self.store.root / "references" / key

        def holds(kept: Kept) -> bool:
            same = not kept.answer.cut_short or kept.within_s == within_s
            return same and self._is_intact(folders / kept.folder)

        known = self.runner.known(key, Kept, holds=holds)
        if known is None:
            make = partial(self._run_original, model, within_s)
            folder, self.prepared = self.store.new_folder("references", key, make)
            self.runner.keep(key, Kept(folder.name, self.prepared, within_s))
            self.store.supersede(folder)
        else:
            folder, self.prepared = folders / known.folder, known.answer
            os.utime(folders)
        self.keys.hold_to(self.prepared, model)
        if self.prepared.inexact is not None:
            self.target = replace(self.target, requires=(*self.target.requires, self.prepared.inexact.pass_name))
            self.place = replace(self.place, target=self.target)
        task = self.prepared.task
        self.reference = Reference(
            folder / "feeds",
            folder / "outputs",
            model,
            self.prepared.compared,
            replace(task, rows=folder / "task.npy") if task else None,
            self.settings.max_mismatch,
        )

    def _run_original(self, model: Model, within_s: float | None, folder: Path) -> Prepared:
        """Fill a new folder of references: feeds, and what the original makes of them."""
        data = self.settings.data
        names = names_in_messages(model.path, self.settings.source)
        if self.elsewhere is not None and data is not None and Path(data).exists():
            given = folder / _GIVEN / Path(data).resolve().name
            given.parent.mkdir()
            (shutil.copytree if Path(data).is_dir() else shutil.copyfile)(data, given)
            names[str(given)], data = data, str(given)
        request = prepare.Request(
            model=model,
            inputs=self._inputs,
            place=self.place,
            data=data,
            feeds=folder / "feeds",
            outputs=folder / "outputs",
            seed=self.settings.seed,
            most_samples=self.settings.most_samples,
            metric=self._metric,
            max_loss=self.settings.max_loss,
            within_s=within_s,
            without=tuple(self.settings.without),
            entry=self.entry,
        )
        most_s = self.settings.needed_timeout_s
        if within_s is not None:
            most_s = min(most_s, self.deadline.most_for_original(bool(self.settings.named)))
        try:
            made = self.need(prepare.JOB, request, "prepare", most_s)
            if not needs_device_check(self.registry.backend(self.target.backend), self.target):
                return made
            from optim._engine.jobs.check_device import with_device_checked

            return with_device_checked(made, request, self.runner, self.settings.needed_timeout_s)
        except OptimError as error:
            if _ran_out(error) and most_s < self.settings.needed_timeout_s:
                failed = error.__cause__
                call = failed.call if isinstance(failed, WorkerFailed) else None
                slow = original_too_slow(self.settings.source.name, most_s, self.deadline.announced_s, call)
                raise slow.naming(names) from error
            raise error.naming(names) from error
        finally:
            shutil.rmtree(folder / _GIVEN, ignore_errors=True)

    def hold_to_time(self) -> None:
        """Compare on as many samples as the time that was given or announced allows."""
        self.prepared = in_time(self.prepared, self.deadline)
        if not unseen_outputs(self.reference.outputs).is_dir():
            self.deadline.note(_SIZES_OF_SAMPLES)
        self.keys.hold_to(self.prepared, self.original.model)
        self.deadline.comparing_s = len(self.prepared.compared) * self.prepared.run_s

    def _is_intact(self, folder: Path) -> bool:
        """Whether a folder of references is as it was written; what is damaged is dropped."""
        if all(is_intact(folder / part) for part in ("feeds", "outputs")):
            return True
        if folder.is_dir():
            shelf = self.store.root / "references"
            self.store.drop("references", str(folder.relative_to(shelf)), "the file has changed since it was written")
        return False

    def need(self, job: Job[Request, Answer], request: Request, what: str, timeout_s: float | None = None) -> Answer:
        """A job that the whole run depends on."""
        return self.runner.need(
            job,
            request,
            timeout_s=timeout_s or self.settings.needed_timeout_s,
            reference=f"{what}-failed",
            doing=f"{what} {self.settings.source.name}",
            release=self.registry.offered("backend")[self.target.backend].plugin.release,
        )


def _ran_out(error: BaseException | None) -> bool:
    """Whether an error was raised because a job was stopped when its time was over."""
    while isinstance(error, OptimError):
        error = error.__cause__
    return isinstance(error, WorkerFailed) and error.kind == "timeout"


def original_too_slow(name: str, took_s: float, announced_s: float, call: PluginCall | None = None) -> OptimError:
    """The error of a run whose model did not run once in ``took_s`` seconds, while a plugin's ``call`` ran."""
    whole_s = 0.0 if math.isinf(announced_s) else announced_s
    enough = math.ceil(max(_RUNS_TO_FIND_ANYTHING * took_s, 2 * whole_s) / LEAST_S) * LEAST_S
    if call is not None and call.first:
        return OptimError(
            "backend-no-answer",
            f"the search on {name} did not begin",
            f"after {took_s:.0f} s, when the time limit was reached, {call.text}: that call had not returned",
            f"--search-seconds {enough:.0f} if it is only slow; if it hangs, report it to the package below, which "
            "brings the backend",
            call.release,
            ExitStatus.TARGET_UNAVAILABLE,
        )
    return OptimError(
        "original-too-slow",
        f"there was no time to run {name} once",
        f"it was still opening or running after {took_s:.0f} s, when the time limit of the run was reached",
        f"--search-seconds {enough:.0f}, or smaller samples with --data",
    )


def export_source(
    settings: RunSettings, registry: Registry, store: Store, say: Say, target: Target, *, fresh: bool = False
) -> Sequence[ExportedGraph]:
    """The components of the source of a run, exported to run on a target."""
    assert settings.export is not None
    choice = Choice({named.name: named.options for named in settings.named}, settings.without)
    timeout_s, fresh = settings.needed_timeout_s, fresh or settings.fresh
    pipeline = find_pipeline(registry, settings.export.spec)
    return pipeline.export(settings.export, ExportConditions(registry, store, say, target, timeout_s, choice, fresh))
