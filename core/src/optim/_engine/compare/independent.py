"""A device is judged by somebody else: a runtime that its vendor did not write computes the original once more.

A device that swaps outputs, answers one call late, or rounds more than it says is equal to itself in every comparison
of a run. So what counts as right is compared with what onnxruntime computes on the CPU, or, if that does not take the
model, with the reference implementation of ONNX.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from optim._engine.compare.place import Reference, chosen
from optim._engine.gate.drift import OutputComparison, is_rounding, merge_samples, worst_drift
from optim._engine.gate.outputs import compare_sample, elements
from optim._engine.gate.variation import Variation
from optim.arrays import Feeds, Outputs
from optim.backend import Backend
from optim.errors import OptimError, describe_exception
from optim.onnx.backend import OnnxRuntimeBackend
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
class CheckedDevice:
    """A device that is checked, and the distribution that a difference is an issue of.

    Attributes:
        target: that is judged.
        backend: name of its backend.
        release: the distribution that brings the backend, with its version.
    """

    target: Target
    backend: str
    release: str


def is_needed(kind: type[Backend], target: Target) -> bool:
    """Whether a plugin's code computes the outputs that count as right; else core's own session of onnxruntime does.

    What a backend says of itself does not count: only core's own ``open`` with the CPU provider needs no check.
    """
    by_core = kind.open is OnnxRuntimeBackend.open and kind.open_reference is Backend.open_reference
    return not target.only_for and not (by_core and target.provider == CPU)


def check_device(
    device: CheckedDevice, reference: Reference, variations: Mapping[str, Variation], within_s: float | None
) -> DeviceCheck:
    """Compare the outputs that count as right with those of an independent runtime.

    Args:
        device: that is judged.
        reference: the original as the user gave it, feeds, and the outputs that count as right.
        variations: of these outputs.
        within_s: seconds in which samples must be over; one is compared in any case.

    Raises:
        OptimError[target-differs]: the target is further off than rounding in its stated precision explains.
    """
    began, failures, target = time.perf_counter(), [], device.target
    for by, opened in (("onnxruntime on the CPU", _onnxruntime), ("ONNX's reference implementation", _evaluator)):
        try:
            run = opened(reference.original.path)
            found, samples = _compared(run, reference, variations, began, within_s)
        except Exception as error:  # whatever a runtime says of a model that it does not take
            failures.append(f"{by}: {describe_exception(error)}")
            continue
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
    return DeviceCheck(reason="; ".join(failures))


def _stated(target: Target) -> str:
    if target.exact:
        return "and the target says that it computes in the model's own precision"
    return f"and a target with less precision may drift by {_INEXACT:g}"


def _compared(
    run: Run, reference: Reference, variations: Mapping[str, Variation], began: float, within_s: float | None
) -> tuple[Sequence[OutputComparison], int]:
    merged: dict[str, OutputComparison] = {}
    original, samples, longest_s = reference.original, 0, 0.0
    for sample, feeds in chosen(reference.feed_set(), reference.compared):
        spent_s = time.perf_counter() - began
        if samples and within_s is not None and spent_s + _SLOWER * longest_s > within_s:
            break
        expected = elements(run(feeds))
        longest_s = max(longest_s, time.perf_counter() - began - spent_s)
        got = reference.expected(sample)
        compared = compare_sample(expected, got, feeds, original.inputs, original.outputs, variations)
        merged, samples = merge_samples(merged, compared), samples + 1
    return list(merged.values()), samples


def _onnxruntime(path: Path) -> Run:
    from optim.onnx.sessions import EXACT_INTEGERS, open_session

    session = open_session(path, EXACT_INTEGERS)
    names = [one.name for one in session.get_outputs()]
    return lambda feeds: dict(zip(names, session.run(names, dict(feeds)), strict=True))


def _evaluator(path: Path) -> Run:
    from onnx.reference import ReferenceEvaluator

    evaluator = ReferenceEvaluator(str(path))
    return lambda feeds: dict(zip(evaluator.output_names, evaluator.run(None, dict(feeds)), strict=True))
