"""Job: a device is judged by somebody else: a runtime that its vendor did not write computes the same once more.

A device that swaps outputs, answers one call late, or rounds more than it says is equal to itself in every comparison
of a run. So what counts as right is compared with what onnxruntime computes on the CPU, or, if that does not take the
model, with the reference implementation of ONNX. The independent runtime also computes the model that a run delivers. A
device that runs another program, such as one from a stale cache, has the outputs and the times of that program.

The job has a process of its own, so a runtime that is slow on the model, hangs or crashes costs the check and not the
run.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from optim._engine.backends.held import HeldBackend
from optim._engine.compare.original import accepted_inexact
from optim._engine.compare.place import Place, Reference, chosen, mapped_feeds, mapped_outputs
from optim._engine.gate.drift import OutputComparison, is_rounding, merge_samples, worst_drift
from optim._engine.gate.outputs import compare_sample, elements
from optim._engine.jobs import prepare
from optim._engine.jobs.job import STARTING_S, Job
from optim._engine.jobs.prepare import DeviceCheck
from optim._engine.jobs.runner import Runner
from optim.arrays import Feeds, Outputs
from optim.backend import Session
from optim.errors import OptimError, describe_exception
from optim.jobs.process import WorkerFailed
from optim.jobs.talk import Channel
from optim.model import Model
from optim.onnx.backend import OnnxRuntimeSession
from optim.passes import Interface
from optim.providers.names import CPU
from optim.target import Target

_SHARE = 0.5
"""Of the time for the original, which is a fifth of the run's: a tenth of the run's."""

_INEXACT = 0.1
"""Drift of a target that computes in less precision than a model says: one per cent of the variance."""

_SLOWER = 2.0
"""Times that a sample may take longer than the longest before it: the check is ended when its time is over."""

Run = Callable[[Feeds], Outputs]


@dataclass(frozen=True, slots=True)
class Request:
    """What is checked.

    Attributes:
        without: passes that the user excluded.
        reference: feeds, and the outputs that count as right.
        within_s: seconds in which samples must be over; None: no bound.
        result: what is about to be delivered, with its session settings; None: the original is checked.
        interfaces: of the result.
        drift: of what the device computes of the result, from the original.
    """

    place: Place
    without: tuple[str, ...]
    reference: Reference
    within_s: float | None
    result: Model | None = None
    interfaces: tuple[Interface, ...] = ()
    drift: float = 0.0


Answer = DeviceCheck

JOB = Job(__name__, Request, Answer)


def run(request: Request, channel: Channel) -> Answer:
    """Compare as many samples as there is time for."""
    place, reference, result = request.place, request.reference, request.result
    backend = place.backend()
    if reason := accepted_inexact(backend, reference.original, place.target, request.without):
        return DeviceCheck(reason=reason)
    what = "original" if result is None else "result"
    channel.event("progress", text=f"computing the {what} on an independent runtime")
    if result is None:
        return check_original(place.target, backend, reference, request.within_s)
    with backend.open(result, place.target) as session:
        return _check_result(request, result, backend, session)


def with_device_checked(
    prepared: prepare.Answer, asked: prepare.Request, runner: Runner, most_s: float
) -> prepare.Answer:
    """What a run is prepared with, and what an independent runtime says of its target, or why none said anything.

    Raises:
        OptimError[target-differs]: the target is further off than rounding in its stated precision explains.
    """
    reference = Reference(asked.feeds, asked.outputs, asked.model, prepared.compared)
    within_s = None if asked.within_s is None else _SHARE * asked.within_s
    timeout_s = most_s if within_s is None else min(most_s, max(STARTING_S, within_s))
    found = checked(Request(asked.place, asked.without, reference, within_s), runner, timeout_s)
    notes = prepared.notes
    if found.reason:
        notes = (*notes, f"no independent runtime checked {asked.place.target.name}: {found.reason}")
    cut_short = prepared.cut_short or found.samples < found.available
    return replace(prepared, device=found, notes=notes, cut_short=cut_short)


def checked(request: Request, runner: Runner, timeout_s: float) -> DeviceCheck:
    """Asks an independent runtime; returns what it says, or why none said anything.

    Raises:
        OptimError[target-differs]: the device computes something else.
        OptimError: the original does not run on the device.
    """
    try:
        return runner.call(JOB, request, timeout_s=timeout_s, on_event=lambda event: runner.say(event.get("text", "")))
    except WorkerFailed as failed:
        if failed.error is not None and (request.result is None or failed.error.reference == "target-differs"):
            raise failed.error from failed
        return DeviceCheck(available=len(request.reference.compared), reason=failed.reason)


def check_original(target: Target, backend: HeldBackend, reference: Reference, within_s: float | None) -> DeviceCheck:
    """Compare the outputs that count as right with those of an independent runtime, one sample at least.

    Raises:
        OptimError[target-differs]: the target is further off than rounding in its stated precision explains.
    """
    by, found, samples = _first_answer(reference.original.path, reference, within_s)
    if not samples:
        return DeviceCheck(reason=by)
    drift = worst_drift(found).relative_error
    problem = next((f"output '{one.name}': {one.problem}" for one in found if one.problem), "")
    is_right = is_rounding(found) if target.exact else drift <= _INEXACT
    if problem or not is_right:
        worst = max(found, key=lambda one: one.relative_error)
        far = problem or f"its drift is {drift:.3g} at {worst.place}".rstrip(",")
        stated = f"and a target with less precision may drift by {_INEXACT:g}"
        if target.exact:
            stated = "and the target says that it computes in the model's own precision"
        raise OptimError(
            "target-differs",
            f"the original model is not right on {target.name}",
            f"compared with {by} on {samples} samples, {far}, {stated}",
            f"this is an issue of the device or of backend {backend.name}, not of the model: report it there",
            backend.release,
        )
    return DeviceCheck(by, drift, samples, len(reference.compared))


def _check_result(request: Request, result: Model, backend: HeldBackend, session: Session) -> DeviceCheck:
    """Compare what the device computes of a result with what an independent runtime computes of the same file.

    The two may be as far apart as the result is from the original: kernels of quantized models round differently. Only
    outputs of floats count, because labels may be near ties.

    Raises:
        OptimError[target-differs]: they are further apart.
    """
    reference = request.reference
    by, found, samples = _first_answer(result.path, reference, request.within_s, session, request.interfaces)
    found = [one for one in found if not one.problem and one.mismatched is None]
    if not samples or not found:
        return DeviceCheck(reason=by if not samples else "it has no outputs of floats that can be compared")
    worst = max(found, key=lambda one: one.relative_error)
    if worst.relative_error > max(_INEXACT, request.drift):
        far = f"its drift is {worst.relative_error:.3g} at {worst.place}".rstrip(",")
        raise OptimError(
            "target-differs",
            f"{request.place.target.name} does not compute the result of the run",
            f"compared with {by} on {samples} samples, {far}; from the original it drifts {request.drift:.3g} there: "
            "the device may have run another program",
            f"this is an issue of the device or of backend {backend.name}: look for a cache of compiled programs "
            "whose key lacks the model's weights or options",
            backend.release,
        )
    return DeviceCheck(by, worst.relative_error, samples, len(reference.compared))


def _first_answer(
    path: Path,
    reference: Reference,
    within_s: float | None,
    session: Session | None = None,
    interfaces: Sequence[Interface] = (),
) -> tuple[str, Sequence[OutputComparison], int]:
    """The first runtime that takes a model: its name, its comparison of each output, and the number of samples.

    If no runtime takes the model: the reasons of each in place of the name, and 0 samples. The outputs are compared
    with those of a session of the model on the device; without a session, with those that count as right.
    """
    until = math.inf if within_s is None else time.perf_counter() + within_s
    failures = []
    for by, opened in (("onnxruntime on the CPU", _onnxruntime), ("ONNX's reference implementation", _evaluator)):
        try:
            return by, *_compared(opened(path), reference, until, session, interfaces)
        except Exception as error:  # whatever a runtime says of a model that it does not take
            failures.append(f"{by}: {describe_exception(error)}")
    return "; ".join(failures), (), 0


def _compared(
    run: Run, reference: Reference, until: float, session: Session | None, interfaces: Sequence[Interface]
) -> tuple[Sequence[OutputComparison], int]:
    merged: dict[str, OutputComparison] = {}
    variations, samples, longest_s = reference.variations(), 0, 0.0
    for sample, feeds in chosen(reference.feed_set(), reference.compared):
        began = time.perf_counter()
        if samples and began + _SLOWER * longest_s > until:
            break
        fed = mapped_feeds(feeds, interfaces)
        expected = elements(mapped_outputs(run(fed), interfaces))
        got = reference.expected(sample)
        if session is not None:
            got = elements(mapped_outputs(session.run(fed), interfaces))
        longest_s = max(longest_s, time.perf_counter() - began)
        compared = compare_sample(expected, got, feeds, reference.original, variations)
        merged, samples = merge_samples(merged, compared), samples + 1
    return list(merged.values()), samples


def _onnxruntime(path: Path) -> Run:
    from optim.onnx.sessions import EXACT_INTEGERS, open_session

    return OnnxRuntimeSession(open_session(path, EXACT_INTEGERS), CPU).run


def _evaluator(path: Path) -> Run:
    from onnx.reference import ReferenceEvaluator

    evaluator = ReferenceEvaluator(str(path))
    taken = set(evaluator.input_names)

    def run(feeds: Feeds) -> Outputs:
        given = {name: array for name, array in feeds.items() if name in taken}
        return dict(zip(evaluator.output_names, evaluator.run(None, given), strict=True))

    return run
