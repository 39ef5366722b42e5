"""Job: the original on a runtime that the target's vendor did not write, within a tenth of the run's time.

It has a process of its own, so a runtime that is slow on the model, hangs or crashes costs the check and not the run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from optim._engine.compare.exactness import accepted_inexact
from optim._engine.compare.independent import CheckedDevice, DeviceCheck, check_device
from optim._engine.compare.place import Place, Reference
from optim._engine.jobs import prepare
from optim._engine.jobs.job import STARTING_S, Job
from optim._engine.jobs.runner import Runner
from optim._engine.plugins.registry import Registry
from optim.jobs.process import WorkerFailed
from optim.jobs.talk import Channel

_SHARE = 0.5
"""Of the time for the original, which is a fifth of the run's: a tenth of the run's."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is checked.

    Attributes:
        reference: feeds, and the outputs that count as right.
        within_s: seconds in which samples are begun; None: no bound.
    """

    device: CheckedDevice
    place: Place
    without: tuple[str, ...]
    reference: Reference
    within_s: float | None


Answer = DeviceCheck

JOB = Job(__name__, Request, Answer)


def run(request: Request, channel: Channel) -> Answer:
    """Compare as many samples as there is time for."""
    place, original = request.place, request.reference.original
    if reason := accepted_inexact(place.backend(), original, place.target, request.without):
        return DeviceCheck(reason=reason)
    channel.event("progress", text="computing the original on an independent runtime")
    return check_device(request.device, request.reference, request.within_s)


def with_device_checked(
    prepared: prepare.Answer, request: prepare.Request, registry: Registry, runner: Runner, most_s: float
) -> prepare.Answer:
    """What a run is prepared with, and what an independent runtime says of its target, or why none said anything.

    Raises:
        OptimError[target-differs]: the target is further off than rounding in its stated precision explains.
    """
    target = request.place.target
    device = CheckedDevice(target, target.backend, registry.offered("backend")[target.backend].plugin.release)
    reference = Reference(request.feeds, request.outputs, request.model, prepared.compared)
    within_s = None if request.within_s is None else _SHARE * request.within_s
    timeout_s = most_s if within_s is None else min(most_s, max(STARTING_S, within_s))
    notes: tuple[str, ...] = ()
    try:
        found = runner.call(
            JOB,
            Request(device, request.place, request.without, reference, within_s),
            timeout_s=timeout_s,
            on_event=lambda event: runner.say(event.get("text", "")),
        )
    except WorkerFailed as failed:
        if failed.error:
            raise failed.error from failed
        found = DeviceCheck(available=len(reference.compared), reason=failed.reason)
    if found.reason:
        notes = (f"no independent runtime checked {target.name}: {found.reason}",)
    cut_short = prepared.cut_short or found.samples < found.available
    return replace(prepared, device=found, notes=(*prepared.notes, *notes), cut_short=cut_short)
