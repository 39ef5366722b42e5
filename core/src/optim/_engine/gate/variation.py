"""How an output of the original varies: the yardstick that an error is measured with.

An answer that ignores its input is worth nothing, however small its distance looks: of ``100 + signal`` a constant is
wrong by 2 %. So the unit of an error is not the size of an output but its deviation from the best constant answer::

    scale = root mean square of (output - its mean over samples)

With this unit a drift of 1 is as bad as a constant, and the square of a drift is the *fraction of variance unexplained*
of statistics. The mean is taken for each element where all samples have one shape, else for each slice of an axis.

An output may hold several kinds of numbers: boxes in pixels beside scores. Slices along the second and the last axis
therefore have scales of their own. Nobody can tell from numbers whether a quiet slice has a unit of its own or is a
quiet one of the same unit; the geometric mean of its own scale and its neighbours' stands between both. Slices whose
scales are a factor of 100 apart are of different units. Numbers that all lie in [0, 1] share a unit.

Left out are infinities, NaN, and *sentinels*: values that repeat exactly and lie far from everything else, such as -1e9
for what is masked. The other side must have the same value there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from optim.arrays import Array, is_float

Numbers = NDArray[np.float64]

_APART = 100.0
"""Neighbours in scale that differ by more are of different units."""

_FAR = 30.0
"""Deviations of everything else that a repeated value is away, to count as a sentinel."""

_ROUNDING_STEPS = 32.0
"""Units in the last place of its size: an output that varies by less is constant but for rounding."""

_MOST_SENTINELS = 8

_FILE = "variation.npz"


@dataclass(frozen=True, slots=True)
class Variation:
    """How one output of the original varies.

    Attributes:
        scale: root mean square deviation from the best constant answer, in the output's unit; where that is nothing
            but rounding, the output's size.
        slices: the same for each slice along an axis whose slices may be of different kinds.
        sentinels: values that stand for no number.
        unjudged: why samples cannot show an error of the usual kind; empty where they can.
        rounding: by axis, how far rounding moves each of :attr:`slices`, in their scales; under -1 the whole output.
    """

    scale: float
    slices: Mapping[int, Numbers] = field(default_factory=dict)
    sentinels: tuple[float, ...] = ()
    unjudged: str = ""
    rounding: Mapping[int, Numbers] = field(default_factory=dict)

    def with_rounding(self, measured: Mapping[int, Numbers]) -> Variation:
        """The variation beside what one more setting of the original changed: the greater of both."""
        merged = {axis: np.maximum(self.rounding.get(axis, 0.0), one) for axis, one in measured.items()}
        return replace(self, rounding={**self.rounding, **merged})


def measure(samples: Sequence[tuple[Array, NDArray[np.bool_] | None]]) -> Variation:
    """Measure one output of the original.

    Args:
        samples: its value on each sample, any shape, with the positions that count, broadcastable to it; None: all.

    Returns:
        For other than floats an empty one: they are compared exactly.
    """
    floats = [(array, valid) for array, valid in samples if is_float(array.dtype) and array.size]
    if not floats:
        reason = "it has no element on any sample" if not any(np.size(array) for array, _ in samples) else ""
        return Variation(0.0, unjudged=reason)
    steps = _ROUNDING_STEPS * epsilon(floats[0][0].dtype)
    values = [np.asarray(array).astype(np.float64) for array, _ in floats]
    weights = [_counted(one, valid) for one, (_, valid) in zip(values, floats, strict=True)]
    sentinels = _sentinels(values, weights)
    for one, weight in zip(values, weights, strict=True):
        for sentinel in sentinels:
            weight &= one != sentinel
    unit = _power_of_two(max((float(np.abs(one[w]).max(initial=0.0)) for one, w in zip(values, weights, strict=True))))
    values = [np.where(weight, one / unit, 0.0) for one, weight in zip(values, weights, strict=True)]
    count = sum(int(weight.sum()) for weight in weights)
    if not count:
        return Variation(0.0, sentinels=sentinels, unjudged="no sample gives a finite number")
    size = math.sqrt(sum(float(np.square(one).sum()) for one in values) / count)
    deviations, freedom = _deviations(values, weights)
    scale = math.sqrt(sum(float(np.square(one).sum()) for one in deviations) / max(1, freedom))
    alone = len(values) == 1
    if scale <= steps * size:
        shown = "on the one sample there is" if alone else f"on all {len(values)} samples"
        reason = f"it is the same number {shown}" if alone else f"it is the same {shown}"
        return Variation(size * unit, sentinels=sentinels, unjudged=reason)
    share = all(float(one.min()) * unit >= 0 and float(one.max()) * unit <= 1 for one in values)
    slices = {
        axis: found * unit
        for axis in _kind_axes(values)
        if (found := _slices(axis, values, weights, steps, None if not share else scale)) is not None
    }
    return Variation(scale * unit, slices, sentinels)


def epsilon(dtype: np.dtype[np.generic]) -> float:
    """The spacing of a float type at 1, those of ml_dtypes too."""
    if dtype.kind == "f":
        return float(np.finfo(dtype).eps)
    import ml_dtypes

    return float(ml_dtypes.finfo(dtype).eps)


def write(folder: Path, variations: Mapping[str, Variation]) -> None:
    """Keep the variations of a model's outputs beside what it computed."""
    arrays: dict[str, Array] = {}
    for number, (name, one) in enumerate(variations.items()):
        arrays[f"{number}/name"] = np.array(name)
        arrays[f"{number}/scale"] = np.array(one.scale)
        arrays[f"{number}/sentinels"] = np.array(one.sentinels, np.float64)
        arrays[f"{number}/unjudged"] = np.array(one.unjudged)
        arrays |= {f"{number}/slices/{axis}": found for axis, found in one.slices.items()}
        arrays |= {f"{number}/rounding/{axis}": found for axis, found in one.rounding.items()}
    with (folder / _FILE).open("wb") as file:
        np.savez(file, **arrays)


def read(folder: Path) -> dict[str, Variation]:
    """The variations that :func:`write` kept."""
    with np.load(folder / _FILE, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    found: dict[str, Variation] = {}
    for number in range(sum(name.endswith("/name") for name in arrays)):
        parts = {name.removeprefix(f"{number}/"): one for name, one in arrays.items() if name.startswith(f"{number}/")}
        found[str(parts["name"])] = Variation(
            float(parts["scale"]),
            {int(name[7:]): one for name, one in parts.items() if name.startswith("slices/")},
            tuple(map(float, parts["sentinels"])),
            str(parts["unjudged"]),
            {int(name[9:]): one for name, one in parts.items() if name.startswith("rounding/")},
        )
    return found


def _counted(array: Numbers, valid: NDArray[np.bool_] | None) -> NDArray[np.bool_]:
    finite = np.isfinite(array)
    return finite if valid is None else finite & valid


def _sentinels(values: Sequence[Numbers], weights: Sequence[NDArray[np.bool_]]) -> tuple[float, ...]:
    """Values that repeat exactly and lie far from all others."""
    found: list[float] = []
    rest = np.concatenate([one[weight] for one, weight in zip(values, weights, strict=True)])
    while len(found) < _MOST_SENTINELS and rest.size > 2:
        extreme = max((float(rest.min()), float(rest.max())), key=abs)
        same = rest == extreme
        others = rest[~same]
        if same.sum() < 2 or not others.size:
            break
        middle = float(np.median(others))
        unit = _power_of_two(max(abs(extreme), 1e-300))
        deviation = math.sqrt(float(np.mean(np.square((others - middle) / unit)))) * unit
        if abs(extreme - middle) < _FAR * deviation or abs(extreme) < _FAR * abs(middle):
            break
        found.append(extreme)
        rest = others
    return tuple(found)


def _deviations(values: Sequence[Numbers], weights: Sequence[NDArray[np.bool_]]) -> tuple[list[Numbers], int]:
    """What is left of each sample beside the best constant answer, and the degrees of freedom of all of it."""
    count = sum(int(weight.sum()) for weight in weights)
    if len(values) > 1 and len({one.shape for one in values}) == 1:
        times = sum(weight.astype(np.float64) for weight in weights)
        mean = sum(values[1:], values[0]) / np.maximum(times, 1)
        return [
            np.where(weight & (times > 1), one - mean, 0.0) for one, weight in zip(values, weights, strict=True)
        ], int(np.maximum(times - 1, 0).sum())
    middle = sum(float(one.sum()) for one in values) / count
    return [np.where(weight, one - middle, 0.0) for one, weight in zip(values, weights, strict=True)], count - 1


def _kind_axes(values: Sequence[Numbers]) -> Iterator[int]:
    """Axes whose slices may be of different kinds: the second and the last, where they have one size."""
    rank = values[0].ndim
    if any(one.ndim != rank for one in values):
        return
    for axis in sorted({1, rank - 1} & set(range(rank))) or ([0] if rank == 1 else []):
        if len({one.shape[axis] for one in values}) == 1 and values[0].shape[axis] > 1:
            yield axis


def _slices(
    axis: int,
    values: Sequence[Numbers],
    weights: Sequence[NDArray[np.bool_]],
    steps: float,
    shared: float | None,
) -> Numbers | None:
    """The scale of each slice; None where too little is known of each."""
    rest = tuple(place for place in range(values[0].ndim) if place != axis)
    counts = sum((weight.sum(axis=rest, dtype=np.float64) for weight in weights), np.zeros(values[0].shape[axis]))
    sums = sum((one.sum(axis=rest) for one in values), np.zeros(values[0].shape[axis]))
    sizes = np.sqrt(sum(np.square(one).sum(axis=rest) for one in values) / np.maximum(counts, 1))
    if len(values) > 1 and len({one.shape for one in values}) == 1:
        deviations, _ = _deviations(values, weights)
        times = sum(weight.astype(np.float64) for weight in weights)
        freedom = np.maximum(times - 1, 0).sum(axis=rest)
    else:
        shape = [1] * values[0].ndim
        shape[axis] = -1
        mean = (sums / np.maximum(counts, 1)).reshape(shape)
        deviations = [np.where(weight, one - mean, 0.0) for one, weight in zip(values, weights, strict=True)]
        freedom = np.maximum(counts - 1, 0)
    if not (freedom >= 1).any():
        return None
    own = np.sqrt(sum(np.square(one).sum(axis=rest) for one in deviations) / np.maximum(freedom, 1))
    varying = own > steps * sizes
    if not varying.any():
        return None
    if shared is not None:
        return np.maximum(own, shared)
    scales = np.zeros_like(own)
    order = np.flatnonzero(varying)[np.argsort(own[varying], kind="stable")]
    jumps = np.flatnonzero(own[order[1:]] > _APART * own[order[:-1]]) + 1
    for group in np.split(order, jumps):
        middle = own[group[(len(group) - 1) // 2]]
        scales[group] = np.where(own[group] < middle, np.sqrt(own[group] * middle), own[group])
    typical = float(own[order[(len(order) - 1) // 2]])
    scales[~varying] = np.maximum(sizes[~varying], typical)
    return scales


def _power_of_two(largest: float) -> float:
    """What to divide by so that squares neither overflow nor vanish; exact."""
    return 1.0 if largest == 0 or not math.isfinite(largest) else math.ldexp(1.0, min(1023, math.frexp(largest)[1]))
