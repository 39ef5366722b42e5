"""A device is judged by somebody else: a runtime that its vendor did not write computes the original once more.

A device that swaps outputs, answers one call late, or rounds more than it says is equal to itself in every comparison
of a run. So what counts as right is compared with what onnxruntime computes on the CPU, or, if that does not take the
model, with the reference implementation of ONNX. The independent runtime also computes the model that a run delivers. A
device that runs another program, such as one from a stale cache, differs there.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from optim._engine.compare.place import Reference, chosen, mapped_feeds, mapped_outputs
from optim._engine.gate.drift import OutputComparison, is_rounding, merge_samples, worst_drift
from optim._engine.gate.outputs import compare_sample, elements
from optim.arrays import Feeds, Outputs
from optim.backend import Session
from optim.errors import OptimError, describe_exception
from optim.model import Model
from optim.onnx.backend import OnnxRuntimeSession
from optim.passes import Interface
from optim.providers.names import CPU
from optim.target import Target

_INEXACT = 0.1
"""Drift of a target that computes in less precision than a model says: one per cent of the variance."""

_SLOWER = 2.0
"""Times that a sample may take longer than the longest before it: the check is ended when its time is over."""

Run = Callable[[Feeds], Outputs]


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
class CheckedResult:
    """A model that is about to be delivered.

    Attributes:
        model: with its session settings.
        drift: of what the device computes of it, from the original.
    """

    model: Model
    interfaces: tuple[Interface, ...]
    drift: float


@dataclass(frozen=True, slots=True)
class CheckedDevice:
    """A device that is checked, and the distribution that a difference is an issue of."""

    target: Target
    backend: str
    release: str


def check_device(device: CheckedDevice, reference: Reference, within_s: float | None) -> DeviceCheck:
    """Compare the outputs that count as right with those of an independent runtime, one sample at least.

    Raises:
        OptimError[target-differs]: the target is further off than rounding in its stated precision explains.
    """
    target = device.target
    by, found, samples = _first_answer(reference.original.path, reference, within_s)
    if not samples:
        return DeviceCheck(reason=by)
    drift = worst_drift(found).relative_error
    problem = next((f"output '{one.name}': {one.problem}" for one in found if one.problem), "")
    is_right = is_rounding(found) if target.exact else drift <= _INEXACT
    if problem or not is_right:
        worst = max(found, key=lambda one: one.relative_error)
        far = problem or f"its drift is {drift:.3g} at {worst.place}".rstrip(",")
        raise OptimError(
            "target-differs",
            f"the original model is not right on {target.name}",
            f"compared with {by} on {samples} samples, {far}, {_stated(target)}",
            f"this is an issue of the device or of backend {device.backend}, not of the model: report it there",
            device.release,
        )
    return DeviceCheck(by, drift, samples, len(reference.compared))


def check_result(
    device: CheckedDevice, result: CheckedResult, session: Session, reference: Reference, within_s: float | None
) -> DeviceCheck:
    """Compare what the device computes of a result with what an independent runtime computes of the same file.

    The two may be as far apart as the result is from the original: kernels of quantized models round differently. Only
    outputs of floats count, because labels may be near ties.

    Raises:
        OptimError[target-differs]: they are further apart.
    """
    by, found, samples = _first_answer(result.model.path, reference, within_s, session, result.interfaces)
    found = [one for one in found if not one.problem and one.mismatched is None]
    if not samples or not found:
        return DeviceCheck(reason=by if not samples else "it has no outputs of floats that can be compared")
    worst = max(found, key=lambda one: one.relative_error)
    if worst.relative_error > max(_INEXACT, result.drift):
        raise OptimError(
            "target-differs",
            f"{device.target.name} does not compute the result of the run",
            f"compared with {by} on {samples} samples, its drift is {worst.relative_error:.3g} at {worst.place}".rstrip(
                ","
            )
            + f"; from the original it drifts {result.drift:.3g} there: the device may have run another program",
            f"this is an issue of the device or of backend {device.backend}: look for a cache of compiled programs "
            "whose key lacks the model's weights or options",
            device.release,
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

    If no runtime takes it: the reasons of each in place of the name, and 0 samples.

    Args:
        path: of the model.
        reference: feeds, and the original's outputs.
        within_s: seconds in which samples must be over; None: no bound.
        session: on the device, of the model that is compared; None: the outputs that count as right are.
        interfaces: of the model.
    """
    began, failures = time.perf_counter(), []
    for by, opened in (("onnxruntime on the CPU", _onnxruntime), ("ONNX's reference implementation", _evaluator)):
        try:
            until = math.inf if within_s is None else began + within_s
            return by, *_compared(opened(path), reference, until, session, interfaces)
        except Exception as error:  # whatever a runtime says of a model that it does not take
            failures.append(f"{by}: {describe_exception(error)}")
    return "; ".join(failures), (), 0


def _stated(target: Target) -> str:
    if target.exact:
        return "and the target says that it computes in the model's own precision"
    return f"and a target with less precision may drift by {_INEXACT:g}"


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
