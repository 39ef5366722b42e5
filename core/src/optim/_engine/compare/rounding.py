"""How far rounding alone moves a model's outputs: what counts as lossless.

``lossless`` means a drift of at most max(1e-4, 10 times the drift between the original's own equivalent settings):
reductions are not reproducible between optimization levels and thread counts, and the tolerance is measured. Outputs of
float16 are rounded to a thousandth themselves, and wherever kernels round on the way: there it is 4e-3 at least.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from optim._engine.backends.held import HeldBackend
from optim._engine.compare.place import Reference, compare_session
from optim._engine.gate.drift import OutputComparison
from optim._engine.gate.outputs import magnitudes
from optim._engine.gate.quiet import floor_of, with_unmeasured
from optim._engine.graphs.training_mode import EVALUATE, training_node
from optim.backend import Session
from optim.errors import OptimError
from optim.model import Model, SessionConfig
from optim.target import Target

_FLOOR = 1e-4
_FLOOR_FLOAT16 = 4e-3
"""Four units in the last place. A Llama of two layers in float16, and the same with attention as one operator, are each
0.9e-3 from that in float32, and 1.5e-3 from each other; settings of either move it by 0.1e-3 only."""

_FACTOR = 10.0
_CAP = 1e-2


@dataclass(frozen=True, slots=True)
class ToleranceTime:
    """Seconds for measuring it.

    Attributes:
        once_s: what one setting takes, about: the model opened, and run on the samples.
        most_s: for all of them.
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
        notes: for the report.
        complete: whether all settings were looked at.
        quiet: outputs that are next to nothing on some sample, with a floor for each that is compared.
    """

    tolerance: float
    notes: tuple[str, ...] = ()
    complete: bool = True
    quiet: dict[str, tuple[float, ...]] = field(default_factory=dict)


def measure_tolerance(
    backend: HeldBackend,
    model: Model,
    reference: Reference,
    samples: Sequence[int],
    time_for: ToleranceTime,
    target: Target,
    equivalent: Sequence[SessionConfig] | None = None,
) -> Tolerance:
    """Compare the original under settings that should not matter with itself.

    Whether it repeats its own outputs is looked at first, whatever the time, unless that alone takes longer than all of
    this may and is left.

    Args:
        backend: that runs it.
        model: the original with the settings that its reference outputs were computed with.
        reference: these outputs.
        samples: to compare on.
        time_for: seconds for it.
        target: where it runs.
        equivalent: settings that should not matter, laid over the model's; None: those of the backend.

    Raises:
        OptimError[target-differs]: its outputs are not those that its backend is held against.
        OptimError[not-reproducible]: it gives other outputs each time.
        OptimError[nothing-compared]: there is nothing to compare.
    """
    floor = _FLOOR_FLOAT16 if any(info.dtype == "float16" for info in model.outputs) else _FLOOR
    if time_for.once_s > max(time_for.most_s, time_for.left_s):
        return Tolerance(floor, complete=False)
    within_s = min(time_for.most_s, time_for.left_s)
    spread, began, complete = 0.0, time.perf_counter(), True
    sizes = _Sizes(reference, samples)
    others = backend.equivalent_settings(target) if equivalent is None else equivalent
    for settings in (SessionConfig(), *others):
        is_first = settings == SessionConfig()
        if not is_first and time.perf_counter() - began > within_s:
            complete = False
            break
        try:
            with open_exact(backend, replace(model, session=model.session.updated(settings)), target) as session:
                comparisons = compare_session(session, reference, samples, ())
        except OptimError as error:
            if error.reference == "nothing-compared":
                raise
            continue
        drift = sizes.note(comparisons)
        if is_first and drift > _CAP:
            raise _not_itself(drift, backend, target, model)
        spread = max(spread, drift)
    tolerance = max(floor, _FACTOR * spread)
    quiet = sizes.floors()
    notes = tuple(
        f"output '{name}' is next to nothing on some sample: lossless there is what moves it by ten times what "
        "rounding does at most; lossy passes have the budget, as everywhere"
        for name in quiet
    )
    if tolerance <= _CAP:
        return Tolerance(tolerance, notes, complete, quiet)
    note = (
        f"the original's own outputs differ by {spread:.2g} between settings that should not matter; "
        f"lossless is capped at a drift of {_CAP:g}"
    )
    return Tolerance(_CAP, (*notes, note), complete, quiet)


class _Sizes:
    """How large outputs are on each sample, and how far rounding moves them.

    Args:
        reference: the original.
        samples: that are compared.
    """

    def __init__(self, reference: Reference, samples: Sequence[int]) -> None:
        self._reference = reference
        self._samples = tuple(samples)
        self._sizes = [
            magnitudes(reference.expected(one), reference.feed_set().sample(one), reference.original) for one in samples
        ]
        self._floors: dict[str, dict[int, float]] = {}

    def note(self, comparisons: Iterable[OutputComparison]) -> float:
        """Notes what one setting changed; returns the drift, where what is next to nothing counts as ordinary."""
        worst = 0.0
        for one in comparisons:
            for sample, sizes, drift in zip(self._samples, self._sizes, one.by_sample, strict=True):
                size = sizes.get(one.name, math.inf)
                floor = 0.0 if one.slices or one.problem else floor_of(drift * size, size)
                known = self._floors.setdefault(one.name, {})
                known[sample] = max(floor, known.get(sample, 0.0))
                worst = max(worst, drift * size / floor if floor else drift)
        return worst

    def floors(self) -> dict[str, tuple[float, ...]]:
        """Of outputs that are next to nothing on some sample, for each that there are outputs of."""
        found = {name: with_unmeasured(floors, self._reference.compared) for name, floors in self._floors.items()}
        return {name: floors for name, floors in found.items() if any(floors)}


def open_exact(backend: HeldBackend, model: Model, target: Target) -> Session:
    """Open on the target, unless that rounds more than the model says."""
    return backend.open(model, target) if target.exact else backend.open_reference(model, target)


def _not_itself(drift: float, backend: HeldBackend, target: Target, model: Model) -> OptimError:
    """Why nothing can be held against such an original."""
    if backend.has_reference:
        return OptimError(
            "target-differs",
            f"the original model is not right on {target.name}",
            f"its outputs differ by {drift:.2g} from those that {backend.name} is held against",
            "this is an issue of the runtime, not of the model: choose another target, or another version of it",
        )
    cause = f"run twice on the same feeds it differs by {drift:.2g}"
    if training := training_node(model.path):
        return replace(not_reproducible(f"{cause}: {training} computes as in training"), fix=EVALUATE)
    return not_reproducible(cause)


def not_reproducible(cause: str) -> OptimError:
    """The error of a model that gives other outputs each time."""
    return OptimError(
        "not-reproducible",
        "the model does not repeat its own outputs",
        cause,
        "fix the seed of random operators in the model, or give --data that avoids them",
    )
