"""Job: the feeds of a run, the original's outputs on them, and how far rounding alone moves those outputs."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from optim._engine.backends.held import HeldBackend, HeldSession
from optim._engine.compare.metric_spec import MetricSpec
from optim._engine.compare.original import (
    Inexact,
    find_inexact,
    measure_tolerance,
    measure_variations,
    needed_settings,
    notes_on_outputs,
    open_exact,
    require_numbers,
)
from optim._engine.compare.place import Place, Reference, TaskUse, chosen, judged_on, spread_of, timed_samples
from optim._engine.feeds.feedset import FeedSet, FeedWriter, at_one_size
from optim._engine.gate.budget import MaxLoss
from optim._engine.gate.drift import FLOOR
from optim._engine.gate.outputs import compare_sample, elements, variations_of
from optim._engine.graphs.limits import check_limits
from optim._engine.graphs.node_lookup import training_notes
from optim._engine.jobs.job import Job
from optim.arrays import Feeds, Outputs
from optim.backend import Session
from optim.errors import OptimError
from optim.jobs.talk import Channel
from optim.model import Model, TensorInfo
from optim.onnx.checker import find_contradiction
from optim.onnx.skeleton import read_skeleton

_EXPLORED = 2

_OUTPUTS_SHARE = 0.25
"""Of the time for preparing, for running the original on its samples: no result is compared for longer."""

_RUNS_IN_TIME = 12
"""Runs that must fit into the time for preparing: else a second sample costs every candidate too much."""


@dataclass(frozen=True, slots=True)
class Request:
    """The original, where it runs, and what the user said of feeds.

    Attributes:
        inputs: its inputs, in the sizes that feeds are to have.
        data: what the user gave after ``--data``, or None to synthesize.
        most_samples: the gate compares at most so many, of those held out of calibration first, spread evenly.
        entry: what is opened on the target in place of the original, which it does not take as it is.
        within_s: for finding feeds that the original takes and telling what rounding does, a third each, and for
            running it on them; together they run it once at least. None: no bound.
        without: passes that the user excluded.
    """

    model: Model
    inputs: tuple[TensorInfo, ...]
    place: Place
    data: str | None
    feeds: Path
    outputs: Path
    seed: int
    most_samples: int
    metric: MetricSpec | None = None
    max_loss: MaxLoss | None = None
    within_s: float | None = None
    without: tuple[str, ...] = ()
    entry: Model | None = None

    @property
    def opened(self) -> Model:
        """What is opened on the target."""
        return self.entry or self.model

    @property
    def bound_s(self) -> float:
        """The seconds of :attr:`within_s`; infinite without a bound."""
        return math.inf if self.within_s is None else self.within_s


@dataclass(frozen=True, slots=True)
class DeviceCheck:
    """What an independent runtime says of the outputs that count as right.

    Attributes:
        by: the runtime; empty if none could compute the original.
        drift: of the target's outputs from those of the runtime.
        samples: that were compared.
        available: samples that could have been compared; fewer were if time was short.
        reason: why nobody checked the device; else empty.
    """

    by: str = ""
    drift: float = 0.0
    samples: int = 0
    available: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the run compares and times on.

    Attributes:
        origin: where they came from.
        available: samples there are.
        compared: samples the gate compares on at the end, those held out of calibration first.
        explored: the few that candidates are compared on first.
        timed: one for each of the first distinct shapes.
        shapes: what the timed ones look like, e.g. ``input_ids 1x128``.
        assumptions: per input, what was assumed.
        tolerance: largest drift that counts as lossless.
        requirements: what opens a result needs, as pip takes it.
        open_s: how long the original took to open, in seconds.
        run_s: how long one run of it took on average, in seconds.
        least_run_s: its fastest run on these samples, in seconds of processor time.
        device_bytes: memory that it took on a device or in a process of its backend's own; 0 where that has none.
        cut_short: whether more samples, settings or figures were left out for their time.
        held_out: samples that no pass sees, and that the gate compares on first.
        one_size: dynamic dimensions that all of the user's samples have at one size.
        device: what an independent runtime says of the target; another job asks it. None if the target is that runtime.
        inexact: that the original as it stands is wrong on the target; None: it is right.
        task: the task metric and its value on the original, where the user named one.
    """

    digest: str
    origin: str
    available: int
    compared: tuple[int, ...]
    explored: tuple[int, ...]
    timed: tuple[int, ...]
    shapes: tuple[str, ...]
    assumptions: tuple[tuple[str, str], ...]
    tolerance: float
    notes: tuple[str, ...]
    executed_on: dict[str, float]
    versions: dict[str, str]
    open_s: float
    run_s: float
    task: TaskUse | None = None
    least_run_s: float = 0.0
    device_bytes: int = 0
    cut_short: bool = False
    held_out: int = 0
    one_size: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()
    inexact: Inexact | None = None
    device: DeviceCheck | None = None


JOB = Job(__name__, Request, Answer)


def run(request: Request, channel: Channel) -> Answer:
    """Make feeds, run the original on them, measure its own spread."""
    from optim._engine.feeds.synthesize import SAMPLES

    backend = request.place.backend()
    check_limits(request.opened, backend.limits(), backend.name)
    exact = needed_settings(backend, request.opened, request.place.target, request.without)
    original = request.opened
    if exact is not None:
        original = replace(original, session=original.session.updated(exact.session))
    channel.event("progress", text="opening the original")
    started = time.perf_counter()
    with _open_original(backend, request, original) as session:
        open_s = time.perf_counter() - started
        began = time.perf_counter()
        known: list[Ran] = []
        feeds = _make_feeds(request, session, known)
        bound_s = request.bound_s
        within_s = min(bound_s * _OUTPUTS_SHARE, began + 2 / 3 * bound_s - time.perf_counter())
        if backend.has_reference:
            with backend.open_reference(original, request.place.target) as trusted:
                compared, _ = _write_outputs(trusted, original, feeds, request, within_s, (), channel)
            for _, arrays in chosen(feeds, compared[:1]):
                run_s = run_once(session, arrays).seconds
        else:
            compared, run_s = _write_outputs(session, original, feeds, request, within_s, known, channel)
        reference = Reference(request.feeds, request.outputs, request.model, compared)
        require_numbers(reference, request.place.target)
        variations = measure_variations(session, reference)
        executed_on = dict(session.executed_on)
        device_bytes, least_run_s = session.peak_memory_bytes() or 0, session.least_run_s
        task, task_notes = _measure_task(request, session, reference, run_s)
    timed, shapes = timed_samples(sorted(compared), feeds)
    few = dict.fromkeys([*feeds.held_out[:1], *timed, *compared])
    explored = tuple(few)[: 1 if _is_long(run_s, request) else _EXPLORED]
    target, left_s = request.place.target, began + bound_s - time.perf_counter()
    tolerance, rounding_notes, complete = FLOOR, tuple[str, ...](), False
    if open_s + len(explored) * run_s <= max(bound_s / 3, left_s):  # the time of one setting
        within_s, equivalent = min(bound_s / 3, left_s), None if exact is None else exact.equivalent
        tolerance, rounding_notes, complete = measure_tolerance(
            backend, original, reference, explored, within_s, target, equivalent
        )
    inexact = None if exact is None else find_inexact(backend, exact, target, reference, tolerance)
    notes = [inexact.note] if inexact is not None else []
    notes += [*rounding_notes, *notes_on_outputs(variations), *feeds.notes, *task_notes]
    return Answer(
        digest=feeds.digest,
        origin=feeds.origin,
        available=len(feeds),
        compared=compared,
        explored=explored,
        timed=timed,
        shapes=shapes,
        assumptions=tuple((assumption.input, assumption.text) for assumption in feeds.assumptions),
        tolerance=tolerance,
        notes=(*notes, *training_notes(request.model.path)),
        executed_on=executed_on,
        versions=dict(backend.versions()),
        requirements=tuple(backend.requirements(target)),
        open_s=open_s,
        run_s=run_s,
        least_run_s=least_run_s,
        device_bytes=device_bytes,
        task=task,
        cut_short=not complete
        or len(compared) < len(judged_on(feeds, request.most_samples))
        or (request.data is None and len(feeds) < SAMPLES),
        held_out=len(feeds.held_out),
        one_size=at_one_size(feeds, compared, request.model.inputs),
        inexact=inexact,
    )


def _measure_task(
    request: Request, session: Session, reference: Reference, run_s: float
) -> tuple[TaskUse | None, list[str]]:
    """The original's own value of the task metric; nothing where the user named none."""
    if request.metric is None:
        return None, []
    from optim._engine.compare.task import measure_original

    rows = request.outputs.with_name("task.npy")
    return measure_original(
        request.metric, request.max_loss, session, reference, run_s, rows, within_s=request.within_s
    )


def _open_original(backend: HeldBackend, request: Request, original: Model) -> HeldSession:
    try:
        return open_exact(backend, original, request.place.target)
    except OptimError as error:
        cause = f"{error.what}: {error.cause}" if error.cause else error.what
        refusal = replace(error, what=f"the original model does not run on {request.place.target.name}", cause=cause)
        path = request.model.path
        found = find_contradiction(read_skeleton(path), path) if error.reference == "session-failed" else None
        if found is not None:
            refusal = replace(found, what=refusal.what, cause=f"{found.cause}; {refusal.cause}")
        raise refusal from error


def _make_feeds(request: Request, session: Session, known: list[Ran]) -> FeedSet:
    model = replace(request.model, inputs=request.inputs)
    if request.data is None:
        return _synthesized(model, request, session, known)
    from optim._engine.feeds.sources import load_feeds

    return load_feeds(request.data, model, request.feeds, request.seed)


def _synthesized(model: Model, request: Request, session: Session, known: list[Ran]) -> FeedSet:
    """Made-up feeds; where a backend fails on all of them, that is what is said.

    Raises:
        OptimError[feeds-not-found]: the model refuses all that can be made up.
        OptimError[backend-failed]: the backend does, with an error that is not about feeds. Also backend-contract.
    """
    from optim._engine.feeds.synthesize import synthesize_feeds

    failures: list[OptimError] = []

    def check(feeds: Feeds) -> Outputs:
        try:
            run = run_once(session, feeds)
        except OptimError as error:
            failures.append(error)
            raise
        if _is_long(run.seconds, request):
            known.append(run)
        return run.outputs

    try:
        return synthesize_feeds(model, request.feeds, request.seed, check=check, within_s=request.bound_s / 3)
    except OptimError as error:
        if error.reference != "feeds-not-found" or not failures:
            raise
        raise replace(failures[0], cause=f"{failures[0].cause} (with every synthesized input)") from error


def _is_long(run_s: float, request: Request) -> bool:
    """Whether one run takes so much of the time that candidates are explored on a single sample."""
    return run_s * _RUNS_IN_TIME > request.bound_s


_SAY_EVERY_S = 2.0


@dataclass(frozen=True, slots=True)
class Ran:
    """A run of the original that took long: whoever needs its outputs does not run it once more."""

    feeds: Feeds
    outputs: Outputs
    seconds: float

    def is_on(self, feeds: Feeds) -> bool:
        """Whether it was a run on just these feeds."""
        same = self.feeds.keys() == feeds.keys()
        return same and all(np.array_equal(array, feeds[name]) for name, array in self.feeds.items())


def _write_outputs(
    session: Session,
    original: Model,
    feeds: FeedSet,
    request: Request,
    within_s: float,
    known: Sequence[Ran],
    channel: Channel,
) -> tuple[tuple[int, ...], float]:
    """Keep the outputs that count as right, on as many samples as there is time for.

    Args:
        session: of the original, on the target or what that is held against.
        original: as it is opened.
        feeds: of the run.
        request: says which samples are wanted, and where their outputs go.
        within_s: seconds for it.
        known: runs in the session that were made already.
        channel: is told how far it is.

    Returns:
        The samples, and the mean duration of a run, in seconds.
    """
    from optim._engine.compare.unseen import write_unseen

    began = said = time.perf_counter()
    total, done, compared = 0.0, 0, judged_on(feeds, request.most_samples)
    with FeedWriter(request.outputs) as writer:
        while done < len(compared):
            for _, arrays in chosen(feeds, compared[done : done + 1]):
                run = next((run for run in known if run.is_on(arrays)), None) or run_once(session, arrays)
                total += run.seconds
                writer.add(elements(run.outputs))
            done += 1
            if done == 1:
                fitting = within_s / max(total + _look_s(original, arrays, run.outputs), 1e-9)
                compared = spread_of(compared, max(1, int(min(fitting, len(compared)))))
            if time.perf_counter() - began > within_s:
                compared = compared[:done]
            if time.perf_counter() - said > _SAY_EVERY_S:
                said = time.perf_counter()
                channel.event("progress", text=f"running the original on sample {done} of {len(compared)}")
        writer.finish("the original's outputs", ())
    run_s, left_s = total / max(1, len(compared)), within_s - (time.perf_counter() - began)
    write_unseen(session, Reference(feeds.folder, request.outputs, original, compared), run_s, left_s)
    return compared, run_s


def _look_s(model: Model, feeds: Feeds, outputs: Outputs) -> float:
    """Seconds that comparing a result on a sample takes beside its run: much, if outputs have millions of elements."""
    found = elements(outputs)
    known = variations_of([(found, feeds)], model)
    began = time.perf_counter()
    compare_sample(found, found, feeds, model, known)
    return time.perf_counter() - began


def run_once(session: Session, feeds: Feeds) -> Ran:
    """Run the original once."""
    started = time.perf_counter()
    outputs = session.run(feeds)
    return Ran(feeds, outputs, time.perf_counter() - started)
