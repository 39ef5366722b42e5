"""Job: the result of a run on its device and on a runtime that the target's vendor did not write.

All else in a run is compared on the device. A device that runs another program than that of the model, such as one from
a stale cache, has the outputs and the times of that program: what is delivered may then be any model.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from optim._engine.compare.comparison import Comparison
from optim._engine.compare.exactness import accepted_inexact
from optim._engine.compare.independent import CheckedDevice, DeviceCheck, check_result
from optim._engine.jobs.job import STARTING_S, Job
from optim._engine.jobs.runner import Runner
from optim._engine.store import names_in_messages
from optim.jobs.process import WorkerFailed
from optim.jobs.talk import Channel
from optim.model import Model


@dataclass(frozen=True, slots=True)
class Request:
    """What is checked.

    Attributes:
        model: that is about to be delivered, with its session settings.
        drift: of what the device computes of it, from the original.
        within_s: seconds in which samples are begun.
    """

    model: Model
    drift: float
    comparison: Comparison
    without: tuple[str, ...]
    within_s: float


Answer = DeviceCheck

JOB = Job(__name__, Request, Answer)


def run(request: Request, channel: Channel) -> Answer:
    """Compare as many samples as there is time for."""
    compared = request.comparison
    place, reference = compared.place, compared.reference
    backend = place.backend()
    if reason := accepted_inexact(backend, reference.original, place.target, request.without):
        return DeviceCheck(reason=reason)
    device = CheckedDevice(place.target, backend.name, backend.release)
    with backend.open(request.model, place.target) as session:
        path, interfaces = request.model.path, compared.interfaces
        return check_result(device, path, request.drift, session, reference, interfaces, request.within_s)


def unchecked_result(runner: Runner, request: Request, most_s: float) -> str:
    """Why no independent runtime computed a result, as a note; empty if one did.

    Raises:
        OptimError[target-differs]: the device computes another model.
    """
    target = request.comparison.place.target
    runner.say("computing the result on an independent runtime")
    try:
        reason = runner.call(JOB, request, timeout_s=max(STARTING_S, most_s)).reason
    except WorkerFailed as failed:
        if failed.error is not None and failed.error.reference == "target-differs":
            raise failed.error from failed
        reason = failed.reason
    for stored, name in names_in_messages(request.model.path, Path("model.onnx")).items():
        reason = reason.replace(stored, name)
    return f"no independent runtime checked what {target.name} computes of the result: {reason}" if reason else ""
