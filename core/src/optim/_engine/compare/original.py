"""The original, looked at before anything is held against it: numbers, variation, padding, rounding, exactness.

*Padding.* What a mask hides is padding if the original itself shows it, and not because of a name: values at a padded
position must not matter. So the original is run with other values there, and then an output may leave positions out
only if its elements changed at these positions, or are one number there, and nowhere else.

*Rounding.* Reductions are not reproducible between optimization levels and thread counts. So the original is compared
with itself under settings that should not matter, and on inputs that differ in their last bits, slice by slice; the
latter on all samples that are compared, since a slice may be near zero on one of them alone.
:mod:`optim._engine.gate.outputs` says what follows from it.

*Exactness.* Integer kernels of some processors saturate if sums are too large, and a model that was quantized before
may have such sums. Its outputs with the settings of :meth:`optim.Backend.exact_settings` then count as right:
candidates that repeat the saturated outputs are wrong, and so is the original as it stands.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from optim._engine.backends.held import HeldBackend, HeldSession
from optim._engine.compare.place import Reference, chosen, compare_session
from optim._engine.gate.drift import CAP, FACTOR, FLOOR, OutputComparison, merge_samples, worst_drift
from optim._engine.gate.outputs import (
    compare_sample,
    elements,
    padding_masks,
    require_compared,
    rounding_of,
    valid_positions,
    variations_of,
)
from optim._engine.gate.variation import Numbers, Variation, epsilon, measure, write
from optim._engine.graphs.node_lookup import EVALUATE, training_node
from optim.arrays import Array, Feeds, Outputs
from optim.backend import Session
from optim.errors import OptimError
from optim.model import Model, SessionConfig, TensorInfo
from optim.processor import ExactSettings
from optim.target import Target

_SAMPLES = 2
"""With padding, that are looked at: each takes two runs."""

_ROUNDING = 1e-4

_STEPS = 4
"""Units in the last place that the feeds of floats are moved by."""


def require_numbers(reference: Reference, target: Target) -> None:
    """Refuse an original that computes nothing: against NaN everything would be right.

    Raises:
        OptimError[only-nan]: no output has a number, on any sample.
    """
    has_elements = False
    for sample in reference.compared:
        for array in reference.expected(sample).values():
            if array.dtype.kind not in "fc" or not np.isnan(array).all():
                return
            has_elements = has_elements or bool(array.size)
    if has_elements:
        raise OptimError(
            "only-nan",
            f"the original model computes only NaN on {target.name}",
            f"no output has a number, on {len(reference.compared)} samples",
            "optim verify MODEL MODEL --target cpu tells whether the model, its samples or the backend is the reason",
        )


def measure_variations(session: Session, reference: Reference) -> dict[str, Variation]:
    """Measure how each output of the original varies over its samples, and keep it beside its outputs."""
    alone = (fed for _, fed in chosen(reference.feed_set(), reference.compared))
    padded = outputs_with_padding(session.run, reference.original, alone)
    feeds = chosen(reference.feed_set(), reference.compared)
    found = variations_of(((reference.expected(sample), fed) for sample, fed in feeds), reference.original, padded)
    write(reference.outputs, found)
    return found


def notes_on_outputs(variations: Mapping[str, Variation]) -> Iterator[str]:
    """A note for each output that cannot be judged on these samples."""
    for name, one in variations.items():
        if one.unjudged:
            yield f"output '{name}' is not judged: {one.unjudged}; give --data on which this output differs"


def outputs_with_padding(run: Callable[[Feeds], Outputs], original: Model, samples: Iterable[Feeds]) -> frozenset[str]:
    """Names of outputs whose padded positions say nothing."""
    proven: dict[str, bool] = {}
    looked_at = 0
    for feeds in samples:
        if looked_at == _SAMPLES or not any(padding_masks(feeds, original.inputs)):
            continue
        looked_at += 1
        before, after = elements(run(feeds)), elements(run(with_other_padding(feeds, original.inputs)))
        for name, array in before.items():
            valid = valid_positions(name, array, feeds, original)
            if valid is None:
                continue
            other = after.get(name)
            if other is None or other.shape != array.shape or array.dtype.kind not in "fiub":
                proven[name] = False
                continue
            if not array.size:
                continue
            a, b = array.astype(np.float64), other.astype(np.float64)
            moved = ~np.isclose(a, b, rtol=_ROUNDING, atol=_ROUNDING * _size(a, array), equal_nan=True)
            shown = np.broadcast_to(valid, array.shape)
            hidden = a[~shown]
            is_one = np.array_equal(hidden, np.full_like(hidden, hidden.flat[0]), equal_nan=True)
            says_nothing = moved[~shown].any() or is_one  # one value, whatever stands there
            proven[name] = proven.get(name, True) and bool(says_nothing) and not moved[shown].any()
    return frozenset(name for name, is_proven in proven.items() if is_proven)


def _size(values: Numbers, array: Array) -> float:
    """The largest of the numbers that count: a sentinel would hide what moves beside it."""
    counted = np.isfinite(values) & ~np.isin(values, measure([(array, None)]).sentinels)
    return float(np.abs(values[counted]).max(initial=0.0))


def with_other_padding(feeds: Feeds, inputs: Iterable[TensorInfo]) -> Feeds:
    """Feeds with other values at the positions that masks hide: those of the same row, turned round."""
    changed = dict(feeds)
    for _, mask in padding_masks(feeds, inputs):
        hidden = mask == 0
        for name, array in feeds.items():
            if "mask" in name.lower() or array.shape[:2] != hidden.shape or array.dtype.kind not in "fiu":
                continue
            turned = np.roll(array, 1 + array.shape[1] // 2, axis=1)
            place = hidden.reshape(hidden.shape + (1,) * (array.ndim - 2))
            value = turned + 1 if array.dtype.kind == "f" else np.where(turned == array, turned // 2, turned)
            changed[name] = np.where(place, value, changed[name]).astype(array.dtype)
    return changed


def measure_tolerance(
    backend: HeldBackend,
    model: Model,
    reference: Reference,
    samples: Sequence[int],
    within_s: float,
    target: Target,
    equivalent: Sequence[SessionConfig] | None = None,
) -> tuple[float, tuple[str, ...], bool]:
    """Compare the original under settings that should not matter with itself, and keep what rounding does.

    Whether it repeats its own outputs is looked at first, whatever the time.

    Args:
        backend: that runs it.
        model: the original with the settings that its reference outputs were computed with.
        reference: these outputs, and how they vary.
        samples: to compare on.
        within_s: seconds for it.
        target: where it runs.
        equivalent: settings that should not matter, laid over the model's; None: those of the backend.

    Returns:
        The largest drift that counts as lossless, notes, and whether all settings were looked at.

    Raises:
        OptimError[target-differs]: its outputs are not those that its backend is held against.
        OptimError[not-reproducible]: it gives other outputs each time.
        OptimError[nothing-compared]: there is nothing to compare.
    """
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
        return tolerance, (), complete
    note = (
        f"the outputs of the original differ by {spread:.2g} between equivalent settings; "
        f"rounding error is capped at a drift of {CAP:g}"
    )
    return CAP, (note,), complete


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
    left_over = "outputs that arrive one run late, state kept between runs, and uninitialized memory"
    doubt = f"; if the model has no random operator, look in backend {backend.name} for {left_over}"
    return replace(error, fix=error.fix + doubt, package=backend.release)


def not_reproducible(cause: str) -> OptimError:
    """The error of a model that gives other outputs each time."""
    return OptimError(
        "not-reproducible",
        "the model gives other outputs each time",
        cause,
        "fix the seed of random operators in the model, or give --data that avoids them",
    )


@dataclass(frozen=True, slots=True)
class Inexact:
    """This machine computes the original as it stands otherwise than the model says.

    Attributes:
        drift: of the original as it stands from its reference outputs.
        pass_name: the pass that lays the exact settings over a model.
        cause: why, one clause.
    """

    drift: float
    pass_name: str
    cause: str

    @property
    def note(self) -> str:
        """One sentence for a report, and what follows from it."""
        return (
            f"the original computes wrong values on this processor, with a drift of {self.drift:.2g}: {self.cause}. "
            f"optim compares with exact arithmetic, which {self.pass_name} produces"
        )


def needed_settings(
    backend: HeldBackend, model: Model, target: Target, without: Collection[str]
) -> ExactSettings | None:
    """Returns the settings that the original may need; None for users who exclude the pass: they accept its outputs."""
    exact = backend.exact_settings(model, target)
    return None if exact is None or exact.pass_name in without else exact


def accepted_inexact(backend: HeldBackend, model: Model, target: Target, without: Collection[str]) -> str:
    """Why the target may compute something else than a model says, if the user accepted that; else empty.

    For its arguments see :func:`needed_settings`.
    """
    exact = backend.exact_settings(model, target)
    if exact is None or exact.pass_name not in without:
        return ""
    return f"{exact.pass_name} is left out, and without it {exact.cause}"


def find_inexact(
    backend: HeldBackend, exact: ExactSettings, target: Target, reference: Reference, tolerance: float
) -> Inexact | None:
    """Compares the original as it stands with its reference outputs; None if rounding explains what differs.

    Raises:
        OptimError: it does not open or run as it stands.
    """
    with backend.open(reference.original, target) as session:
        drift = worst_drift(compare_session(session, reference, reference.compared, ())).relative_error
    return Inexact(drift, exact.pass_name, exact.cause) if drift > tolerance else None
