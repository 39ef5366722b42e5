"""Job: the original, or the result of a run, on its device and on a runtime that the target's vendor did not write.

It has a process of its own, so a runtime that is slow on the model, hangs or crashes costs the check and not the run.
All else in a run is compared on the device. A device that runs another program than that of the model, such as one from
a stale cache, has the outputs and the times of that program: what is delivered may then be any model.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from optim._engine.compare.exactness import accepted_inexact
from optim._engine.compare.independent import CheckedDevice, CheckedResult, DeviceCheck, check_device, check_result
from optim._engine.compare.place import Place, Reference
from optim._engine.jobs import prepare
from optim._engine.jobs.job import STARTING_S, Job
from optim._engine.jobs.runner import Runner
from optim.jobs.process import WorkerFailed
from optim.jobs.talk import Channel

_SHARE = 0.5
"""Of the time for the original, which is a fifth of the run's: a tenth of the run's."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is checked.

    Attributes:
        without: passes that the user excluded.
        reference: feeds, and the outputs that count as right.
        within_s: seconds in which samples are begun; None: no bound.
        result: what is about to be delivered; None: the original is checked.
    """

    place: Place
    without: tuple[str, ...]
    reference: Reference
    within_s: float | None
    result: CheckedResult | None = None


Answer = DeviceCheck

JOB = Job(__name__, Request, Answer)


def run(request: Request, channel: Channel) -> Answer:
    """Compare as many samples as there is time for."""
    place, reference = request.place, request.reference
    backend = place.backend()
    if reason := accepted_inexact(backend, reference.original, place.target, request.without):
        return DeviceCheck(reason=reason)
    device = CheckedDevice(place.target, backend.name, backend.release)
    result = request.result
    what = "original" if result is None else "result"
    channel.event("progress", text=f"computing the {what} on an independent runtime")
    if result is None:
        return check_device(device, reference, request.within_s)
    with backend.open(result.model, place.target) as session:
        return check_result(device, result, session, reference, request.within_s)


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
