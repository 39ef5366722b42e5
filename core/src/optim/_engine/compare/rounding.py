"""How far rounding alone moves a model's outputs: what counts as lossless.

Reductions are not reproducible between optimization levels and thread counts. So the original is compared with itself
under settings that should not matter, and on inputs that differ in their last bits, slice by slice; the latter on
all samples that are compared, since a slice may be near zero on one of them alone;
:mod:`optim._engine.gate.outputs` says what follows from it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from optim._engine.backends.held import HeldBackend, HeldSession
from optim._engine.compare.place import Reference, chosen
from optim._engine.gate.drift import OutputComparison, merge_samples, worst_drift
from optim._engine.gate.outputs import CAP, FACTOR, FLOOR, compare_sample, elements, require_compared, rounding_of
from optim._engine.gate.variation import Variation, epsilon, write
from optim._engine.graphs.node_lookup import EVALUATE, training_node
from optim.arrays import Feeds
from optim.backend import Session
from optim.errors import OptimError
from optim.model import Model, SessionConfig
from optim.target import Target

_STEPS = 4


@dataclass(frozen=True, slots=True)
class ToleranceTime:
    """Seconds for measuring it.

    Attributes:
        once_s: what one setting takes, about: the model opened, and run on the samples.
        left_s: that are left of preparing.
    """

    once_s: float
    most_s: float
    left_s: float


@dataclass(frozen=True, slots=True)
class Tolerance:
    """What was found.

    Attributes:
        tolerance: largest drift that counts as lossless.
        complete: whether all settings were looked at.
    """

    tolerance: float
    notes: tuple[str, ...] = ()
    complete: bool = True


def measure_tolerance(
    backend: HeldBackend,
    model: Model,
    reference: Reference,
    samples: Sequence[int],
    time_for: ToleranceTime,
    target: Target,
    equivalent: Sequence[SessionConfig] | None = None,
) -> Tolerance:
    """Compare the original under settings that should not matter with itself, and keep what rounding does.

    Whether it repeats its own outputs is looked at first, whatever the time, unless that alone takes longer than all of
    this may and is left.

    Args:
        backend: that runs it.
        model: the original with the settings that its reference outputs were computed with.
        reference: these outputs, and how they vary.
        samples: to compare on.
        time_for: seconds for it.
        target: where it runs.
        equivalent: settings that should not matter, laid over the model's; None: those of the backend.

    Raises:
        OptimError[target-differs]: its outputs are not those that its backend is held against.
        OptimError[not-reproducible]: it gives other outputs each time.
        OptimError[nothing-compared]: there is nothing to compare.
    """
    if time_for.once_s > max(time_for.most_s, time_for.left_s):
        return Tolerance(FLOOR, complete=False)
    within_s = min(time_for.most_s, time_for.left_s)
    spread, began, complete = 0.0, time.perf_counter(), True
    known = reference.variations()
    others = backend.equivalent_settings(target) if equivalent is None else equivalent
    for settings in (SessionConfig(), *others):
        is_first = settings == SessionConfig()
        if not is_first and time.perf_counter() - began > within_s:
            complete = False
            break
        try:
            with open_exact(backend, replace(model, session=model.session.updated(settings)), target) as session:
                drift, known = _rounded(session, reference, samples, known)
                if is_first:
                    every = _in_time(reference.compared, began + within_s)
                    _, known = _rounded(session, reference, every, known, next_numbers)
        except OptimError as error:
            if error.reference == "nothing-compared":
                raise
            continue
        if is_first and drift > CAP:
            raise _not_itself(drift, backend, target, model)
        spread = max(spread, drift)
    known = {name: one.beside_rounding(CAP / FACTOR, CAP) for name, one in known.items()}
    write(reference.outputs, known)
    tolerance = max(FLOOR, FACTOR * spread)
    if tolerance <= CAP:
        return Tolerance(tolerance, complete=complete)
    note = (
        f"the outputs of the original differ by {spread:.2g} between equivalent settings; "
        f"rounding error is capped at a drift of {CAP:g}"
    )
    return Tolerance(CAP, (note,), complete)


def _in_time(samples: Iterable[int], until: float) -> Iterator[int]:
    """Samples, the first in any case: a slice that is quiet on one sample alone shows there what rounding does."""
    for place, sample in enumerate(samples):
        if place and time.perf_counter() > until:
            return
        yield sample


def next_numbers(feeds: Feeds) -> Feeds:
    """Feeds of floats moved by some units in the last place, up and down: as if a few operations had rounded before."""
    rng = np.random.default_rng(0)
    moved = dict(feeds)
    for name, array in feeds.items():
        if array.dtype.kind == "f":
            steps = _STEPS * epsilon(array.dtype) * rng.choice((-1, 1), array.shape)
            moved[name] = (array.astype(np.float64) * (1 + steps)).astype(array.dtype)
    return moved


def _rounded(
    session: Session,
    reference: Reference,
    samples: Iterable[int],
    variations: Mapping[str, Variation],
    change: Callable[[Feeds], Feeds] = dict,
) -> tuple[float, dict[str, Variation]]:
    """The original's drift from itself under other settings, with its feeds changed, and its variations with these."""
    merged: dict[str, OutputComparison] = {}
    known, original = dict(variations), reference.original
    seen = set()
    for sample, feeds in chosen(reference.feed_set(), samples):
        expected, got = reference.expected(sample), elements(session.run(change(feeds)))
        found = compare_sample(expected, got, feeds, original, variations)
        merged = merge_samples(merged, found)
        seen.add(sample)
        for one in found:
            if not one.problem:
                measured = rounding_of(one.name, expected[one.name], got[one.name], feeds, original, known[one.name])
                known[one.name] = known[one.name].with_rounding(measured)
    if seen >= set(reference.compared):  # some of them may lack what others show
        require_compared(merged.values())
    return worst_drift(merged.values()).relative_error, known


def open_exact(backend: HeldBackend, model: Model, target: Target) -> HeldSession:
    """Open on the target, unless that rounds more than the model says."""
    return backend.open(model, target) if target.exact else backend.open_reference(model, target)


def _not_itself(drift: float, backend: HeldBackend, target: Target, model: Model) -> OptimError:
    """Why nothing can be held against such an original."""
    if backend.has_reference:
        return OptimError(
            "target-differs",
            f"the original model is not right on {target.name}",
            f"its outputs differ by {drift:.2g} from the reference of backend {backend.name}",
            "this is an issue of the runtime, not of the model: choose another target, or another version of it",
            backend.release,
        )
    cause = f"two runs on the same sample differ by {drift:.2g}"
    if training := training_node(model.path):
        return replace(not_reproducible(f"{cause}: {training} computes as in training"), fix=EVALUATE)
    error = not_reproducible(cause)
    if backend.kind.opened_by_onnxruntime:
        return error
    doubt = f"; if the model has no random operator, look in backend {backend.name} for {_LEFT_OVER}"
    return replace(error, fix=error.fix + doubt, package=backend.release)


_LEFT_OVER = "outputs that arrive one run late, state kept between runs, and uninitialized memory"


def not_reproducible(cause: str) -> OptimError:
    """The error of a model that gives other outputs each time."""
    return OptimError(
        "not-reproducible",
        "the model gives other outputs each time",
        cause,
        "fix the seed of random operators in the model, or give --data that avoids them",
    )
