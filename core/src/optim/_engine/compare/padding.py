"""Whether what a mask hides is padding: shown by the original itself, and not believed for a name.

What stands at a padded position must not matter. So the original is run with other values there, and then an output may
leave positions out only if its elements changed at these positions, or are one number there, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from optim._engine.gate.outputs import elements, padding_masks, valid_positions
from optim._engine.gate.variation import Numbers, measure
from optim.arrays import Array, Feeds, Outputs
from optim.model import Model, TensorInfo

_SAMPLES = 2
"""With padding, that are looked at: each takes two runs."""

_ROUNDING = 1e-4


def outputs_with_padding(run: Callable[[Feeds], Outputs], original: Model, samples: Iterable[Feeds]) -> frozenset[str]:
    """Names of outputs whose padded positions say nothing.

    Args:
        run: the original.
        original: for names and symbolic dimensions.
        samples: its feeds.
    """
    infos = {info.name: info for info in original.outputs}
    proven: dict[str, bool] = {}
    looked_at = 0
    for feeds in samples:
        if looked_at == _SAMPLES or not any(padding_masks(feeds, original.inputs)):
            continue
        looked_at += 1
        before, after = elements(run(feeds)), elements(run(with_other_padding(feeds, original.inputs)))
        for name, array in before.items():
            valid = valid_positions(name, array, feeds, original.inputs, infos.get(name))
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
    for info, mask in padding_masks(feeds, tuple(inputs)):
        hidden = np.asarray(mask) == 0
        for name, array in feeds.items():
            if "mask" in name.lower() or array.shape[:2] != hidden.shape or array.dtype.kind not in "fiu":
                continue
            turned = np.roll(array, 1 + array.shape[1] // 2, axis=1)
            place = hidden.reshape(hidden.shape + (1,) * (array.ndim - 2))
            value = turned + 1 if array.dtype.kind == "f" else np.where(turned == array, turned // 2, turned)
            changed[name] = np.where(place, value, changed[name]).astype(array.dtype)
        del info
    return changed
