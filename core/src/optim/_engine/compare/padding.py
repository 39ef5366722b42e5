"""The original's outputs, looked at before anything is held against them: variation, numbers, padding.

What a mask hides is padding if the original itself shows it, and not because of a name: values at a padded position
must not matter. So the original is run with other values there, and then an output may leave positions out only if its
elements changed at these positions, or are one number there, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np

from optim._engine.compare.place import Reference, chosen
from optim._engine.gate.counted import Numbers
from optim._engine.gate.outputs import elements, padding_masks, valid_positions, variations_of
from optim._engine.gate.variation import Variation, measure, write
from optim.arrays import Array, Feeds, Outputs
from optim.backend import Session
from optim.errors import OptimError
from optim.model import Model, TensorInfo
from optim.target import Target

_SAMPLES = 2
"""With padding, that are looked at: each takes two runs."""

_ROUNDING = 1e-4


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
        hidden = np.asarray(mask) == 0
        for name, array in feeds.items():
            if "mask" in name.lower() or array.shape[:2] != hidden.shape or array.dtype.kind not in "fiu":
                continue
            turned = np.roll(array, 1 + array.shape[1] // 2, axis=1)
            place = hidden.reshape(hidden.shape + (1,) * (array.ndim - 2))
            value = turned + 1 if array.dtype.kind == "f" else np.where(turned == array, turned // 2, turned)
            changed[name] = np.where(place, value, changed[name]).astype(array.dtype)
    return changed


def measure_variations(session: Session, reference: Reference) -> dict[str, Variation]:
    """Measure how each output of the original varies over its samples, and keep it beside its outputs."""
    alone = (fed for _, fed in chosen(reference.feed_set(), reference.compared))
    padded = outputs_with_padding(session.run, reference.original, alone)
    feeds = chosen(reference.feed_set(), reference.compared)
    found = variations_of(((reference.expected(sample), fed) for sample, fed in feeds), reference.original, padded)
    write(reference.outputs, found)
    return found


def notes_on_outputs(variations: Mapping[str, Variation]) -> Iterator[str]:
    """What cannot be judged on these samples."""
    for name, one in variations.items():
        if one.unjudged:
            yield f"output '{name}' is not judged: {one.unjudged}; give --data on which this output differs"


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
