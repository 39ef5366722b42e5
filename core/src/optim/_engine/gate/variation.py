"""How an output of the original varies: the yardstick that an error is measured with.

An answer that ignores its input is worth nothing, however small its distance looks: of ``100 + signal`` a constant is
wrong by 2 %. So the unit of an error is not the size of an output but its deviation from the best constant answer::

    scale = root mean square of (output - its mean over samples)

With this unit a drift of 1 is as bad as a constant, and the square of a drift is the *fraction of variance unexplained*
of statistics. The mean is taken for each element where all samples have one shape, else for each slice of an axis.

An output may hold several kinds of numbers: boxes in pixels beside scores. Slices along each axis but the batch
therefore have scales of their own. Nobody can tell from numbers whether a quiet slice has a unit of its own or is a
quiet one of the same unit; the geometric mean of its own scale and its neighbours' stands between both. Slices whose
scales are a factor of 100 apart are of different units. Numbers that all lie in [0, 1] are never: beside common
probabilities the scale of rare ones is the geometric mean of their own and that of all.

Numbers that deviate a hundred times as much as most do not count in the scale, and are measured by their own size. A
slice of a sample may vary less than the output does over all samples, such as a dark picture beside bright ones; its
scale is the geometric mean of both.

Left out are infinities, NaN, and *sentinels*: values that repeat exactly and lie far from everything else, such as -1e9
for what is masked. The other side must have the same value there.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optim.arrays import Array, Outputs, is_float

APART = 100.0
"""Numbers whose scales differ by more are of different kinds."""

_FAR = 30.0
"""Deviations of everything else that a repeated value is away, to count as a sentinel."""

_ROUNDING_STEPS = 64.0
"""Units in the last place of its size: an output that varies by less is constant but for rounding.

The errors of a sum of 4,096 numbers add up to as much, its square root. With half as many, slices that wider sums move
at random have scales of their own; with twice as many, an output of float16 must vary by 13 % of its size to be judged.
"""

_MOST_SENTINELS = 8

_SORTED = 1 << 20
"""Numbers among which a median is looked for, spread evenly: of more it takes longer than all else. Half of so many
numbers are below the median of all within 0.15 %, three standard deviations of a share of them."""

_LEAST_WHOLE = 8
"""Numbers of a slice, over all samples, that must be whole: fewer may be by chance."""

Numbers = NDArray[np.float64]
Counted = NDArray[np.bool_]
"""Which elements of an output count: all but padding, infinities, NaN and sentinels.

Outputs may have millions of elements, and mostly all count. So this array has only the axes that a mask has: it is
broadcastable to the output, and one True where everything counts.
"""

Part = tuple[Numbers, Counted]
"""An output on one sample, and which elements count."""

_FILE = "variation.npz"
_TABLES = ("slices", "rounding", "whole")
"""Attributes of a variation with an array for each axis."""


@dataclass(frozen=True, slots=True)
class Variation:
    """How one output of the original varies.

    Attributes:
        scale: root mean square deviation from the best constant answer, in the output's unit; where that is nothing
            but rounding, the output's size.
        middle: what all elements lie around.
        slices: scale and middle of each slice along an axis whose slices may be of different kinds, (2, slices).
        is_share: whether all numbers lie in [0, 1], so that they are of one kind.
        whole: by axis, which slices hold whole numbers alone, so small that rounding did not make them whole; under -1
            whether all do.
        sentinels: values that stand for no number.
        unjudged: why samples cannot show an error of the usual kind; empty where they can.
        rounding: by axis, how far rounding moves each of :attr:`slices`, in their scales; under -1 the whole output.
        has_padding: whether what stands at positions that a mask hides says nothing.
        rounds_by: share of a number's size that rounding may be.
    """

    scale: float
    middle: float = 0.0
    slices: Mapping[int, Numbers] = field(default_factory=dict)
    is_share: bool = False
    sentinels: tuple[float, ...] = ()
    unjudged: str = ""
    rounding: Mapping[int, Numbers] = field(default_factory=dict)
    has_padding: bool = False
    rounds_by: float = 0.0
    whole: Mapping[int, NDArray[np.bool_]] = field(default_factory=dict)

    def with_rounding(self, measured: Mapping[int, Numbers]) -> Variation:
        """The variation beside what one more setting of the original changed: the greater of both."""
        merged = {axis: np.maximum(self.rounding.get(axis, 0.0), one) for axis, one in measured.items()}
        return replace(self, rounding={**self.rounding, **merged})

    def beside_rounding(self, least: float, most: float) -> Variation:
        """The variation with larger scales for slices that are little but rounding.

        Rounding then moves none by more than it moves most slices of an axis. Half precision moves all slices alike,
        and changes no scale.

        Args:
            least: how far rounding may move any slice.
            most: how far it may move none, even if it moves most slices.
        """
        slices, rounding = dict(self.slices), dict(self.rounding)
        for axis, table in self.slices.items():
            measured = rounding.get(axis, np.zeros(1))
            factor = np.maximum(measured / np.clip(np.median(measured), least, most), 1.0)
            slices[axis] = table * np.stack([factor * np.ones(table.shape[1]), np.ones(table.shape[1])])
            rounding |= {axis: rounding[axis] / factor} if axis in rounding else {}
        return replace(self, slices=slices, rounding=rounding)


def measure(samples: Sequence[tuple[Array, NDArray[np.bool_] | None]]) -> Variation:
    """Measure one output of the original.

    Args:
        samples: its value on each sample, any shape, with the positions that count, broadcastable to it; None: all.

    Returns:
        For other than floats one without a scale: they are compared exactly.
    """
    some = [(np.asarray(array), valid) for array, valid in samples if np.size(array)]
    if not some:
        return Variation(0.0, unjudged="it has no element on any sample")
    if not is_float(some[0][0].dtype):
        return Variation(0.0, unjudged=_unvaried([array for array, _ in some]))
    dtype = some[0][0].dtype
    steps = _ROUNDING_STEPS * epsilon(dtype)
    values = [array.astype(np.float64) for array, _ in some]
    parts = [(one, _counted(one, valid)) for one, (_, valid) in zip(values, some, strict=True)]
    if not any(weight.any() for _, weight in parts):
        return Variation(0.0, unjudged="it has no finite number on any sample")
    sentinels = sentinels_of(parts)
    for sentinel in sentinels:
        parts = [(one, weight & (one != sentinel)) for one, weight in parts]
    scaled = [only(weight, one) for one, weight in parts]
    unit = power_of_two(max(map(_size, scaled)))
    scaled = [one / unit for one in scaled]
    size = _root_mean_square(scaled, _many(parts))
    smallest = smallest_normal(dtype)
    if not size or size * unit < smallest:
        near = "zero" if not size else "too near to zero for the precision of its type"
        return Variation(0.0, sentinels=sentinels, unjudged=f"it is {near} on all samples")
    reason = _unvaried(values) if len(values) > 1 else ""
    found = _Deviations.of([(one, weight) for one, (_, weight) in zip(scaled, parts, strict=True)])
    is_share = all(one.min() >= 0 and one.max() * unit <= 1 for one in scaled) and found.of_all * unit > steps
    slices = {}
    for axis in _kind_axes(scaled):
        scales = found.of_slices(axis, steps, is_share=is_share)
        if scales is not None:
            with np.errstate(over="ignore"):
                own = np.clip(scales[0] * unit, smallest, np.finfo(np.float64).max)
            slices[axis] = np.stack([own, scales[1] * unit])
    if not slices and found.of_all <= steps * size:
        return Variation(size * unit, sentinels=sentinels, unjudged=reason or "it is one number on all samples")
    middle = found.middle * unit
    scale = found.of_all if is_share else found.scale
    scale = min(max(scale * unit, smallest), sys.float_info.max)
    whole = dict(_whole(parts, 1 / steps))
    return Variation(scale, middle, slices, is_share, sentinels, reason, rounds_by=steps, whole=whole)


def measure_each(samples: Iterable[tuple[Outputs, Mapping[str, NDArray[np.bool_] | None]]]) -> dict[str, Variation]:
    """Measure every output of the original, by name, from its samples, each with the positions that count."""
    gathered: dict[str, list[tuple[Array, NDArray[np.bool_] | None]]] = {}
    for outputs, valid in samples:
        for name, array in outputs.items():
            gathered.setdefault(name, []).append((np.asarray(array), valid.get(name)))
    return {name: measure(one) for name, one in gathered.items()}


def _many(parts: Sequence[Part]) -> int:
    """Returns how many elements count."""
    return sum(count(weight, one.shape) for one, weight in parts)


def _whole(parts: Sequence[Part], below: float) -> Iterator[tuple[int, NDArray[np.bool_]]]:
    """Where all elements that count are whole numbers below a bound, by axis; under -1 in the whole output."""
    fits = [~weight | ((one == np.rint(one)) & (np.abs(one) < below)) for one, weight in parts]
    if all(bool(one.all()) for one in fits) and _many(parts) >= _LEAST_WHOLE:
        yield -1, np.ones(1, bool)
        return
    for axis in _kind_axes([one for one, _ in parts]):
        rest = tuple(place for place in range(parts[0][0].ndim) if place != axis)
        many = np.sum([counts_of(weight, one.shape, rest) for one, weight in parts], axis=0) >= _LEAST_WHOLE
        found = np.logical_and.reduce([many, *(one.all(axis=rest) for one in fits)])
        if found.any():
            yield axis, found


def _unvaried(values: Sequence[Array]) -> str:
    """Why an output cannot show a difference, since it never differs itself; empty where it does."""
    first = values[0]
    kind = "number" if first.dtype.kind not in "SUO" else "text"
    if all(bool((one == first.flat[0]).all()) for one in values):
        return f"it is one {kind} on all samples"
    same = len(values) > 1 and all(
        one.shape == first.shape and bool(((one == first) | ((one != one) & (first != first))).all())
        for one in values[1:]
    )
    return f"it is the same on all {len(values)} samples" if same else ""


def _root_mean_square(values: Sequence[Numbers], counts: float) -> float:
    """Returns it of elements that are zero where they do not count; 0 if none counts."""
    total = sum(float(np.einsum("i,i->", flat, flat)) for flat in (one.ravel() for one in values))
    return math.sqrt(total / counts) if counts else 0.0


@dataclass(frozen=True, slots=True)
class _Deviations:
    """What is left of an output beside the best constant answer.

    Attributes:
        parts: values of the output on each sample, and elements that count.
        deviations: of each sample; zero where an element does not count.
        share: degrees of freedom of an element: less than one where the mean was taken over few samples.
        middle: of all elements.
        is_by_element: whether the constant is one for each element, else one for all.
    """

    parts: Sequence[Part]
    deviations: Sequence[Numbers]
    share: float
    middle: float
    is_by_element: bool

    @classmethod
    def of(cls, parts: Sequence[Part]) -> _Deviations:
        """By element where there are several samples of one shape."""
        middle = float(np.median(_some([shown(weight, one) for one, weight in parts])))
        values, many = [one for one, _ in parts], len(parts)
        if many < 2 or len({one.shape for one in values}) > 1 or _unvaried(values):
            left = [only(weight, one - middle) for one, weight in parts]
            return cls(parts, left, 1.0, middle, is_by_element=False)
        sizes = sorted(_root_mean_square([one], count(weight, one.shape)) for one, weight in parts)
        counted = sum(np.broadcast_to(weight, values[0].shape).astype(int) for _, weight in parts)
        if sizes[-1] > 10 * sizes[(many - 1) // 2]:  # a mean would carry the loud sample into all others
            known = [np.where(weight, one, np.nan) for one, weight in parts]
            constant = np.nanmedian(known, axis=0) if np.all(counted) else 0.0
        else:
            constant = sum(values) / np.maximum(counted, 1)
        left = [only(weight, one - constant) for one, weight in parts]
        return cls(parts, left, (many - 1) / many, middle, is_by_element=True)

    @property
    def of_all(self) -> float:
        """Of all elements, the loudest too."""
        return _root_mean_square(self.deviations, _many(self.parts)) / math.sqrt(self.share)

    @property
    def scale(self) -> float:
        """Of all elements but the loudest."""
        return self._quiet(self.deviations)

    def _quiet(self, deviations: Sequence[Numbers]) -> float:
        """The root mean square of deviations, without those that are of another kind than most."""
        flat = [shown(weight, one) for one, (_, weight) in zip(deviations, self.parts, strict=True)]
        some = np.abs(_some(flat))
        if not some.any():
            some = np.abs(np.concatenate(flat))
        usual = APART * float(np.median(some[some > 0])) if some.any() else 0.0
        kept = [one if _size(one) <= usual else one[np.abs(one) <= usual] for one in flat]
        return _root_mean_square(kept, max(1.0, sum(one.size for one in kept) * self.share))

    def of_slices(self, axis: int, steps: float, *, is_share: bool) -> tuple[Numbers, Numbers] | None:
        """The scale and the middle of each slice along an axis; None where too little is known of each."""
        first = self.parts[0][0]
        rest = tuple(place for place in range(first.ndim) if place != axis)
        shape = [1] * first.ndim
        shape[axis] = -1
        counts = np.sum([counts_of(weight, one.shape, rest) for one, weight in self.parts], axis=0)
        middles = self._middles(rest)
        left, share = self.deviations, self.share
        if not self.is_by_element:
            left = [only(weight, one - middles.reshape(shape)) for one, weight in self.parts]
            share = 1.0
        freedom = counts * share - (0 if self.is_by_element else 1)
        if not (freedom >= 1).any():
            return None
        most = math.inf if is_share else APART * self._quiet(left)
        quiet = (one if _size(one) <= most else np.where(np.abs(one) <= most, one, 0.0) for one in left)
        total = sum((np.square(one).sum(axis=rest) for one in quiet), np.zeros(first.shape[axis]))
        own: Numbers = np.sqrt(total / np.maximum(freedom, 1))
        if is_share:
            own = np.maximum(own, steps)
            return np.sqrt(own * np.maximum(own, self.of_all)), middles
        varying = own > steps * np.abs(middles)
        if not varying.any():
            return None
        return _by_kind(own, varying, np.abs(middles)), middles

    def _middles(self, rest: tuple[int, ...]) -> Numbers:
        """The median of each slice; that of most samples, where one is unlike all others."""
        found = []
        for one, weight in self.parts:
            values = one
            counted = np.broadcast_to(weight, one.shape)
            if rest and one.size > _SORTED:
                step = math.ceil((one.size / _SORTED) ** (1 / len(rest))) | 1
                thin = tuple(slice(None, None, step if axis in rest else 1) for axis in range(one.ndim))
                values, counted = one[thin], counted[thin]
            some = counted.any(axis=rest)
            if counted.all():
                found.append(np.median(values, axis=rest))
                continue
            kept = np.where(counted | ~counted.any(axis=rest, keepdims=True), values, np.nan)
            found.append(np.where(some, np.nanmedian(kept, axis=rest), np.nan))
        unseen = np.isnan(found).all(axis=0)
        middles: Numbers = np.nanmedian(np.where(unseen, 0.0, found), axis=0)
        return middles


def _some(values: Sequence[Numbers]) -> Numbers:
    """The numbers of all samples; of many only some, spread evenly."""
    step = sum(one.size for one in values) // _SORTED | 1
    return np.concatenate([one[::step] for one in values])


def _size(values: Numbers) -> float:
    """The largest magnitude."""
    return max(float(values.max(initial=0.0)), -float(values.min(initial=0.0)))


def _by_kind(own: Numbers, varying: NDArray[np.bool_], sizes: Numbers) -> Numbers:
    """Scales of slices beside their neighbours' in scale: see the module."""
    scales = np.zeros_like(own)
    order = np.flatnonzero(varying)[np.argsort(own[varying], kind="stable")]
    jumps = np.flatnonzero(own[order[1:]] > APART * own[order[:-1]]) + 1
    for group in np.split(order, jumps):
        middle = own[group[(len(group) - 1) // 2]]
        scales[group] = np.where(own[group] < middle, np.sqrt(own[group]) * np.sqrt(middle), own[group])
    typical = float(own[order[(len(order) - 1) // 2]])
    scales[~varying] = np.maximum(sizes[~varying], typical)
    return scales


def epsilon(dtype: np.dtype[np.generic]) -> float:
    """The spacing of a float type at 1, those of ml_dtypes too."""
    return float(_limits(dtype).eps)


def smallest_normal(dtype: np.dtype[np.generic]) -> float:
    """The smallest normal number of a float type: kernels may take what is smaller for zero."""
    return float(_limits(dtype).smallest_normal)


def _limits(dtype: np.dtype[np.generic]) -> Any:
    if dtype.kind == "f":
        return np.finfo(dtype)
    import ml_dtypes

    return ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]


def write(folder: Path, variations: Mapping[str, Variation]) -> None:
    """Keep the variations of a model's outputs beside what it computed."""
    plain = {name: asdict(replace(one, slices={}, rounding={}, whole={})) for name, one in variations.items()}
    tables = {
        f"{number}/{table}/{axis}": found
        for number, one in enumerate(variations.values())
        for table in _TABLES
        for axis, found in getattr(one, table).items()
    }
    with (folder / _FILE).open("wb") as file:
        np.savez(file, plain=np.array(json.dumps(plain)), **tables)


def read(folder: Path) -> dict[str, Variation]:
    """The variations that :func:`write` kept."""
    with np.load(folder / _FILE, allow_pickle=False) as archive:
        tables = dict(archive)
    plain: dict[str, dict[str, Any]] = json.loads(str(tables.pop("plain")))
    names = list(plain)
    for key, found in tables.items():
        number, table, axis = key.split("/")
        plain[names[int(number)]][table][int(axis)] = found
    return {name: Variation(**{**one, "sentinels": tuple(one["sentinels"])}) for name, one in plain.items()}


def _counted(array: Numbers, valid: NDArray[np.bool_] | None) -> NDArray[np.bool_]:
    counted, finite = positions(array.shape, valid), np.isfinite(array)
    return counted if finite.all() else counted & finite


def sentinels_of(parts: Sequence[Part]) -> tuple[float, ...]:
    """Values that repeat exactly and lie far from all others."""
    found: list[float] = []
    rest = [shown(weight, one) for one, weight in parts]
    some = _some(rest)
    while len(found) < _MOST_SENTINELS and sum(one.size for one in rest) > 2:
        ends = [float(end) for one in rest if one.size for end in (one.min(), one.max())]
        extreme = max(min(ends), max(ends), key=abs)
        some = some[some != extreme]
        if sum(int((one == extreme).sum()) for one in rest) < 2 or not some.any():
            break  # beside zeros alone, as in a mask of ones, nothing says what is far
        unit = power_of_two(abs(extreme))
        far, near = extreme / unit, some / unit
        middle = float(np.median(near))
        deviation = math.sqrt(float(np.mean(np.square(near - middle))))
        if abs(far - middle) < _FAR * deviation or abs(far) < _FAR * abs(middle):
            break
        found.append(extreme)
        rest = [one[one != extreme] for one in rest]
    return tuple(found)


def _kind_axes(values: Sequence[Numbers]) -> Iterator[int]:
    """Axes whose slices may be of different kinds: all that have one size, but the batch."""
    rank = values[0].ndim
    if any(one.ndim != rank for one in values):
        return
    for axis in range(1 if rank > 1 else 0, rank):
        if len({one.shape[axis] for one in values}) == 1 and values[0].shape[axis] > 1:
            yield axis


def power_of_two(largest: float) -> float:
    """What to divide by so that squares neither overflow nor vanish; exact."""
    return 1.0 if largest == 0 or not math.isfinite(largest) else math.ldexp(1.0, min(1023, math.frexp(largest)[1]))


def positions(shape: Sequence[int], valid: Counted | None) -> Counted:
    """Returns what counts at first, with as many axes as the output.

    Args:
        shape: of the output.
        valid: broadcastable to it; None: all.
    """
    given = np.ones((), bool) if valid is None else np.asarray(valid, bool)
    return given.reshape((1,) * (len(shape) - given.ndim) + given.shape)


def only(counted: Counted, values: Numbers) -> Numbers:
    """Returns the values, and zero where an element does not count."""
    return values if counted.all() else np.where(counted, values, 0.0)


def shown(counted: Counted, values: Numbers) -> Numbers:
    """Returns the values that count, in one dimension."""
    return values.ravel() if counted.all() else values[np.broadcast_to(counted, values.shape)]


def count(counted: Counted, shape: Sequence[int]) -> int:
    """Returns how many elements count."""
    return int(counts_of(counted, shape, tuple(range(len(shape)))))


def counts_of(counted: Counted, shape: Sequence[int], rest: tuple[int, ...]) -> NDArray[np.int_]:
    """Returns how many elements count in each slice, which spans the axes ``rest``."""
    wide = math.prod(shape[axis] for axis in rest if counted.shape[axis] == 1)
    kept = tuple(size for axis, size in enumerate(shape) if axis not in rest)
    return np.broadcast_to(np.asarray(counted.sum(axis=rest) * wide), kept)
