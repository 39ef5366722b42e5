"""Whether two models compute the same: each output of one run against the original's.

*Computes the same* means, for every output on every sample:

- it has the same name, shape and type; texts and whole numbers are equal, but for the share of mismatches that the user
  accepts; NaN and infinities, with their signs, stand at the same places;
- its floats are near the original's, measured by how the original varies (:mod:`optim._engine.gate.variation`).
  The error of an element is ``|other - original|`` beyond four units in the last place of its type, or 1 % of the
  element, divided by the scale of its slice. Each *question* is the root mean square of these errors: over the whole
  output, and over every slice of every axis, so that one wrong token, channel or row counts; slices within each row
  of a batch too, so that a row passes no sooner beside others than alone. The error of a slice is divided by what
  chance gives the worst of so many slices if errors are spread evenly;
- floats that are whole numbers in both models, such as classes, are asked one question more: which share of them
  differs;
- the drift is the worst answer, and :attr:`~optim._engine.gate.drift.OutputComparison.where` names the question.

*Equal up to rounding* means that rounding explains each answer: it is below 1e-4, or below ten times what settings of
the original that should not matter change in the same slice, and never above 1e-2.

A model may compute any number at a padded position, and different kernels do. Such positions are left out where an
output carries the sequence dimension of an attention mask among the feeds: by its symbolic name where the graph names
it, else by its size where only one dimension of the output has that size. NaN or infinity there is wrong if the
original has a number: a program that multiplies by the mask and adds up gets NaN.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optim._engine.gate.drift import CAP, DIFFERENCES, FACTOR, FLOOR, SCORES, OutputComparison
from optim._engine.gate.variation import (
    APART,
    Numbers,
    Variation,
    count,
    counts_of,
    epsilon,
    measure,
    measure_each,
    only,
    positions,
    shown,
    smallest_normal,
)
from optim.arrays import Array, Feeds, Outputs, is_float
from optim.errors import OptimError
from optim.model import Model, TensorInfo

_STEPS = 4.0
"""Units in the last place of an element that are no error: a few operations on the way to it round as much. Beside a
large constant that is more than rounding measured in another sample explains."""

_MOST_ROWS, _ROWS = 0.5, 4
"""Share of rows whose largest score must stay where it is, and rows needed to say so: one may be a near tie."""

_CHANCE = 1e-3
"""Probability that the worst of evenly spread errors is above what is divided by."""

_LEAST = 8
"""Elements of a slice whose own spread is looked at: that of fewer is off by more than a quarter by chance."""

_LARGEST, _MOST_SCALES = float(np.finfo(np.float64).max), 1e150
"""Largest deviation, and so many scales at most: the squares of more overflow."""

WHOLE = -1
"""In place of an axis: the output as a whole."""


def compare_sample(
    reference: Outputs,
    other: Outputs,
    feeds: Feeds,
    model: Model | None,
    variations: Mapping[str, Variation] | None = None,
    masks: Mapping[str, NDArray[np.bool_]] | None = None,
) -> list[OutputComparison]:
    """Compare every output of one run.

    Args:
        reference: outputs of the reference model by name.
        other: outputs of the candidate, already mapped back to the reference's names.
        feeds: what the reference was fed; its attention mask says which positions are padding.
        model: of the reference, for its symbolic dimensions; None: nothing is padding.
        variations: how each output varies over samples; None: it is measured on this one alone.
        masks: positions of outputs that count, where it is not the model that says so.
    """
    results = []
    for name, expected in reference.items():
        if name not in other:
            results.append(_incomparable(OutputComparison(name, "", ()), f"output '{name}' is missing"))
            continue
        variation = (variations or {}).get(name)
        valid = (masks or {}).get(name)
        if model is not None and (variation is None or variation.has_padding):
            valid = valid_positions(name, np.asarray(expected), feeds, model)
        results.append(compare_output(name, expected, other[name], valid, variation))
    sequences = {name.partition("[")[0] for name in reference if "[" in name}
    return results + [
        _incomparable(OutputComparison(name, "", ()), f"output '{name}' is an element too many")
        for name in other
        if name not in reference and name.partition("[")[0] in sequences
    ]


def require_compared(comparisons: Iterable[OutputComparison]) -> None:
    """Refuse a comparison of nothing.

    Raises:
        OptimError[nothing-compared]: there is no output, or not one element on any sample.
    """
    found = list(comparisons)
    if any(one.compared or one.problem for one in found):
        return
    if any(one.shape and 0 not in one.shape for one in found):
        raise OptimError(
            "nothing-compared",
            "the models have nothing to compare",
            "no output has a finite number on any sample, apart from padding",
            "give --data on which the model computes finite numbers",
        )
    raise OptimError(
        "nothing-compared",
        "the models have nothing to compare",
        "no output has an element on any sample",
        "give --data on which the model gives an output",
    )


def elements(outputs: Mapping[str, Any]) -> dict[str, Array]:
    """Outputs with each element of a sequence as one of its own, ``name[0]``; what an optional lacks is left out."""
    found: dict[str, Array] = {}
    for name, value in outputs.items():
        if isinstance(value, list | tuple):
            found |= elements({f"{name}[{place}]": one for place, one in enumerate(value)})
        elif value is not None:
            found[name] = np.asarray(value)
    return found


def compare_output(
    name: str,
    reference: Array,
    other: Array,
    valid: NDArray[np.bool_] | None = None,
    variation: Variation | None = None,
) -> OutputComparison:
    """Compare one output on one sample.

    Args:
        name: of the output.
        reference: any dtype, any shape.
        other: the candidate's; another shape or kind of dtype is a problem, not an exception.
        valid: broadcastable to the shape; False where a position is padding.
        variation: how the reference varies over samples; None: it is measured on this one.
    """
    reference, other = np.asarray(reference), np.asarray(other)
    found = OutputComparison(name, str(other.dtype), tuple(other.shape))
    if reference.shape != other.shape:
        return _incomparable(found, f"shape {list(reference.shape)} became {list(other.shape)}")
    if reference.dtype.kind in "SUO" or other.dtype.kind in "SUO":
        return _compare_exactly(found, reference, other, valid, variation)
    if reference.dtype != other.dtype:
        return _incomparable(found, f"dtype {reference.dtype} became {other.dtype}")
    if reference.dtype.kind == "c":
        reference, other = (np.stack([array.real, array.imag], axis=-1) for array in (reference, other))
        valid, variation = None if valid is None else valid[..., None], None
    if not is_float(reference.dtype):
        return _compare_exactly(found, reference, other, valid, variation)
    return _compare_floats(found, reference, other, valid, variation)


def _compare_floats(
    found: OutputComparison,
    reference: Array,
    other: Array,
    valid: NDArray[np.bool_] | None,
    variation: Variation | None,
) -> OutputComparison:
    a, b = (np.atleast_1d(array).astype(np.float64) for array in (reference, other))
    counted = positions(a.shape, valid)
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        lost = _numbers_lost(found, a, b, counted)
        if lost.problem:
            return lost
        counted = counted & np.isfinite(a)
    if not a.size or not counted.any():  # padding, or the same NaN or infinity everywhere
        return replace(found, unjudged=variation.unjudged if variation else "")
    found = _with_figures(replace(found, top1_agreement=_top1_agreement(a, b, counted)), a, b, counted, reference.dtype)
    if variation is None:
        variation = measure([(reference, valid)])
    for sentinel in variation.sentinels:
        counted = counted & ((a != sentinel) | (b != sentinel))
    return _answered(found, _errors(a, b, counted, reference.dtype, variation), a, b, counted, variation)


def _numbers_lost(found: OutputComparison, a: Numbers, b: Numbers, counted: NDArray[np.bool_]) -> OutputComparison:
    """The comparison as infinitely far, if something became NaN or infinite, or is no longer."""
    if lost := int((~counted & np.isfinite(a) & ~np.isfinite(b)).sum()):
        problem = f"{lost} elements at padded positions became NaN or infinite, which stay so when multiplied by a mask"
        return replace(_incomparable(found, problem), overflowed=True)
    if nans := int((counted & np.isnan(b) & ~np.isnan(a)).sum()):
        return replace(_incomparable(found, f"{nans} elements became NaN"), overflowed=True)
    if nans := int((counted & np.isnan(a) & ~np.isnan(b)).sum()):
        return _incomparable(found, f"{nans} elements are NaN in the reference only")
    if moved := int((counted & (np.isinf(a) | np.isinf(b)) & (a != b)).sum()):
        return replace(_incomparable(found, f"{moved} elements became, or are no longer, infinite"), overflowed=True)
    return found


def _errors(
    a: Numbers,
    b: Numbers,
    counted: NDArray[np.bool_],
    dtype: np.dtype[np.generic],
    variation: Variation,
    steps: float = _STEPS,
) -> Numbers:
    """How far apart elements are beyond what writing them down rounds; zero where they do not count.

    Shares are computed from numbers near 1: a sigmoid is half of ``1 + tanh``.
    """
    a, b = only(counted, a), only(counted, b)
    with np.errstate(over="ignore"):
        errors: Numbers = np.subtract(b, a)
    np.abs(errors, out=errors)
    rounded = np.abs(a)
    np.maximum(rounded, np.abs(b), out=rounded)
    if variation.is_share:
        np.maximum(rounded, 1.0, out=rounded)
    rounded *= min(steps * epsilon(dtype), CAP)
    errors -= rounded
    errors -= smallest_normal(dtype)
    return np.maximum(errors, 0.0, out=errors)


@dataclass(frozen=True, slots=True)
class Answer:
    """What one axis says: the error of each of its slices, in the scales of the original.

    Attributes:
        axis: whose slices; :data:`WHOLE` for the output.
        errors: root mean square of each slice.
        chance: what the worst of so many slices has by chance where errors are spread evenly; 1 and more.
    """

    axis: int
    errors: Numbers
    chance: Numbers


def answers(errors: Numbers, original: Numbers, counted: NDArray[np.bool_], variation: Variation) -> Iterator[Answer]:
    """The errors of an output by its axes, each measured in the scale of its own slice where it has one."""
    known = {
        axis: table
        for axis, table in variation.slices.items()
        if axis < errors.ndim and table.shape[1] == errors.shape[axis]
    }
    views = []
    for axis, (scales, middles) in known.items() or {WHOLE: (variation.scale, variation.middle)}.items():
        shape = [1] * errors.ndim
        if axis != WHOLE:
            shape[axis] = -1
        scale, middle = (np.reshape(one, shape) for one in (scales, middles))
        with np.errstate(over="ignore", invalid="ignore"):
            spread = only(counted, original - middle)
            size = np.abs(spread)
            unit = scale
            if not variation.is_share and (is_loud := size > APART * scale).any():
                unit = np.where(is_loud, np.clip(size, scale, _LARGEST), scale)
            squares = errors / unit
            np.square(squares, out=squares)
            total = float(squares.sum())
            if not math.isfinite(total):
                np.nan_to_num(squares, copy=False, nan=math.inf, posinf=math.inf)
                total = math.inf
            spread /= scale
            np.clip(spread, -_MOST_SCALES, _MOST_SCALES, out=spread)
            views.append((total / count(counted, errors.shape), axis, squares, spread))
        if axis != WHOLE:
            yield _of_axis(axis, squares, spread, counted, variation)
    whole, kind, squares, spread = max(views, key=lambda one: one[0])
    every = tuple(range(errors.ndim))
    counts = np.asarray(count(counted, errors.shape))
    own = np.ones(1) if variation.is_share else _own(spread, counted, counts, every, variation, alone=True).reshape(1)
    yield Answer(WHOLE, np.sqrt(np.array([whole])) / own, np.ones(1))
    for axis in range(errors.ndim):
        if axis not in (kind, *known) and errors.shape[axis] > 1:
            yield _of_axis(axis, squares, spread, counted, variation)


def _of_axis(axis: int, squares: Numbers, spread: Numbers, counted: NDArray[np.bool_], variation: Variation) -> Answer:
    """The errors of all slices of an axis; of one in a batch that of its worst row, if it is worse than that of all."""
    has_rows = axis > 0 and squares.ndim > 2 and squares.shape[0] > 1
    batches: tuple[tuple[int, ...], ...] = ((), (0,)) if has_rows else ((),)
    views = []
    for batch in batches:
        rest = tuple(place for place in range(squares.ndim) if place not in (axis, *batch))
        counts = counts_of(counted, squares.shape, rest)
        with np.errstate(over="ignore"):
            errors = np.sqrt(squares.sum(axis=rest) / np.maximum(counts, 1))
        if not variation.is_share:
            alone = axis == 0 or (squares.ndim <= 3 and not batch)
            errors = errors / _own(spread, counted, counts, rest, variation, alone=alone)
        views.append(np.stack([errors, _chance(counts)]).reshape(2, -1, squares.shape[axis]))
    errors, chance = np.concatenate(views, axis=1)
    worst = (errors / chance).argmax(axis=0)[None]
    return Answer(axis, *(np.take_along_axis(one, worst, axis=0)[0] for one in (errors, chance)))


def _own(
    spread: Numbers,
    counted: NDArray[np.bool_],
    counts: NDArray[np.int_],
    rest: tuple[int, ...],
    variation: Variation,
    *,
    alone: bool,
) -> Numbers:
    """What to divide the error of a slice by that varies less than the output does over all samples; at most 1.

    Args:
        spread: of the original on this sample, in scales.
        counted: elements that count.
        counts: how many do in each slice.
        rest: axes within a slice.
        variation: of the original's output; a spread that rounding explains is none.
        alone: the slice is an answer of its own, and where it is of another kind nothing else counts.
    """
    some = np.maximum(counts, 1)
    mean = spread.sum(axis=rest) / some
    left = only(counted, spread - np.expand_dims(mean, rest))
    with np.errstate(over="ignore"):
        np.square(left, out=left)
        own = np.sqrt(left.sum(axis=rest) / some)
        size = np.hypot(own, mean)
    is_known = (counts >= _LEAST) & (own > variation.rounds_by * np.maximum(size, 1.0))
    quiet = np.sqrt(np.clip(own, 1 / APART, 1.0))
    found = np.where(alone & (own < 1 / APART), own, quiet)
    return np.where(is_known, found, 1.0)


def _chance(counts: NDArray[np.int_]) -> Numbers:
    """What the root mean square of the worst of slices of so many normal errors of deviation 1 stays below.

    Source: Wilson and Hilferty, The distribution of chi-square, PNAS 17, 1931.
    """
    z = NormalDist().inv_cdf(1 - _CHANCE / max(2, counts.size))
    ninth = 2 / (9 * np.maximum(counts, 1))
    found: Numbers = np.sqrt((1 - ninth + z * np.sqrt(ninth)) ** 3)
    return found


def _answered(
    found: OutputComparison,
    errors: Numbers,
    original: Numbers,
    other: Numbers,
    counted: NDArray[np.bool_],
    variation: Variation,
) -> OutputComparison:
    """The comparison with its drift: the worst answer, and the question."""
    if variation.scale == 0 and errors.any():
        return _incomparable(found, f"{variation.unjudged}, and became up to {float(errors.max()):.3g}")
    if variation.scale == 0 or not count(counted, errors.shape):
        return replace(found, unjudged=variation.unjudged)
    drift, excess, where = 0.0, 0.0, ""
    agreement = found.top1_agreement
    has_rows = agreement is not None and errors.size >= _ROWS * errors.shape[-1]
    if agreement is not None and has_rows and agreement < _MOST_ROWS and SCORES.search(found.name):
        drift, where = 1 - agreement, "the largest score of most rows is in another place"
    for axis, shares in _whole_numbers_that_differ(original, other, counted, variation):
        place = int(shares.argmax())
        if shares[place] > drift:
            drift, where = float(shares[place]), f"{100 * shares[place]:.3g} % of the whole numbers differ"
            excess = drift / float(np.clip(FACTOR * _measured(axis, shares.size, variation).max(), FLOOR, CAP))
            where += f" in {_place(axis, place, errors.ndim)}" if axis != WHOLE else ""
    for answer in answers(errors, original, counted, variation):
        values = answer.errors / answer.chance
        explained = np.clip(FACTOR * _measured(answer.axis, values.size, variation), FLOOR, CAP)
        excess = max(excess, float((values / explained).max()))
        place = int(values.argmax())
        if values[place] > drift:
            drift, where = float(values[place]), _place(answer.axis, place, errors.ndim)
    with np.errstate(over="ignore"):
        above = {limit: int((errors > float(limit) * variation.scale).sum()) for limit in DIFFERENCES}
    unjudged = variation.unjudged
    return replace(found, relative_error=drift, rounding_excess=excess, where=where, above=above, unjudged=unjudged)


def _whole_numbers_that_differ(
    original: Numbers, other: Numbers, counted: NDArray[np.bool_], variation: Variation
) -> Iterator[tuple[int, Numbers]]:
    """By axis, the share of classes or counts that are others; 0 if the other model gives fractions in a slice."""
    for axis, flags in variation.whole.items():
        if axis != WHOLE and (axis >= original.ndim or original.shape[axis] != flags.size):
            continue
        rest = tuple(place for place in range(original.ndim) if place != axis)
        is_whole = (~counted | (other == np.rint(other))).all(axis=rest)
        some = np.maximum(counts_of(counted, original.shape, rest), 1)
        shares = (counted & (original != other)).sum(axis=rest) / some
        yield axis, np.reshape(np.where(flags & is_whole, shares, 0.0), -1)


def _measured(axis: int, size: int, variation: Variation) -> Numbers:
    """How far rounding moves the slices of an axis; where it was not seen to move one, what it does to most.

    An axis that has another size on the samples of the original has the rounding of the whole output.
    """
    known = variation.rounding.get(axis)
    if known is None or known.size not in (1, size):
        known = variation.rounding.get(WHOLE, np.zeros(1))
    found: Numbers = np.maximum(known, np.median(known))
    return found


def _place(axis: int, place: int, rank: int) -> str:
    """Where a slice is, in words."""
    if axis == WHOLE:
        return ""
    if rank == 2:
        return f"row {place}" if axis == 0 else f"column {place}"
    return f"slice {place} of axis {axis}"


def variations_of(
    samples: Iterable[tuple[Outputs, Feeds]], model: Model, padded: frozenset[str] = frozenset()
) -> dict[str, Variation]:
    """How each output of a model varies."""

    def that_count(outputs: Outputs, feeds: Feeds) -> dict[str, NDArray[np.bool_] | None]:
        names = padded & outputs.keys()
        return {name: valid_positions(name, np.asarray(outputs[name]), feeds, model) for name in names}

    found = measure_each((outputs, that_count(outputs, feeds)) for outputs, feeds in samples)
    return {name: replace(one, has_padding=name in padded) for name, one in found.items()}


def rounding_of(
    name: str, reference: Array, other: Array, feeds: Feeds, model: Model, variation: Variation
) -> dict[int, Numbers]:
    """What a setting that should not matter moves, by axis; under :data:`WHOLE` the output as a whole."""
    reference, other = np.atleast_1d(reference), np.atleast_1d(other)
    valid = valid_positions(name, reference, feeds, model) if variation.has_padding else None
    counted = positions(reference.shape, valid)
    if not is_float(reference.dtype):
        different = int((counted & (reference != other)).sum()) if reference.dtype.kind != "c" else 0
        return {WHOLE: np.array([different / max(1, count(counted, reference.shape))])}
    a, b = reference.astype(np.float64), other.astype(np.float64)
    if not np.isfinite(a).all():
        counted = counted & np.isfinite(a)
    if not a.size or not counted.any() or variation.scale == 0:
        return {}
    found = answers(_errors(a, b, counted, reference.dtype, variation, steps=0.0), a, counted, variation)
    return {one.axis: one.errors for one in found if one.axis == WHOLE or one.axis in variation.slices}


def _with_figures(
    found: OutputComparison, a: Numbers, b: Numbers, counted: NDArray[np.bool_], dtype: np.dtype[np.generic]
) -> OutputComparison:
    """The comparison with figures that inform, and decide nothing."""
    a, b = shown(counted, a), shown(counted, b)
    unit = float(np.abs(a).max()) or 1.0
    with np.errstate(over="ignore", invalid="ignore"):
        gap = np.abs(b - a)
        scaled = [v / unit for v in (gap, a, b)]
        noise, signal, other = (math.sqrt(_dot(v, v)) for v in scaled)
        cosine = 1.0 if noise == 0 else _dot(*scaled[1:]) / (signal * other) if signal and other else 0.0
    return replace(
        found,
        compared=int(a.size),
        max_abs=float(gap.max()),
        max_ulp=_max_ulp(gap, np.maximum(np.abs(a), np.abs(b)), dtype),
        cosine=max(-1.0, min(1.0, cosine)) if math.isfinite(cosine) else -1.0,
        sqnr_db=math.inf
        if noise == 0
        else 20 * math.log10(signal / noise)
        if signal and noise < math.inf
        else -math.inf,
    )


def _dot(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """The inner product in one thread: that of BLAS waits for threads which a session's own keep from running."""
    return float(np.einsum("i,i->", a, b))


def _compare_exactly(
    found: OutputComparison,
    reference: Array,
    other: Array,
    valid: NDArray[np.bool_] | None,
    variation: Variation | None,
) -> OutputComparison:
    """Texts and whole numbers: the share of elements that differ."""
    counted = positions(reference.shape, valid)
    compared = count(counted, reference.shape)
    if not compared:
        return replace(found, unjudged=variation.unjudged if variation else "")
    different = int((counted & (reference != other)).sum())
    explained = FACTOR * float(variation.rounding[WHOLE][0]) if variation and WHOLE in variation.rounding else 0.0
    share = different / compared
    return replace(
        found,
        compared=compared,
        unjudged=variation.unjudged if variation else "",
        mismatched=share,
        relative_error=share,
        rounding_excess=0.0 if not different else share / min(explained, CAP) if explained else math.inf,
    )


def _incomparable(found: OutputComparison, problem: str) -> OutputComparison:
    """The comparison as infinitely far."""
    far = replace(found, relative_error=math.inf, rounding_excess=math.inf, max_abs=math.inf, cosine=-1.0)
    return replace(far, sqnr_db=-math.inf, problem=problem)


def _max_ulp(gap: Numbers, largest: Numbers, dtype: np.dtype[np.generic]) -> float | None:
    if dtype.kind != "f":
        return None
    info: Any = np.finfo(dtype)
    # A process that flushes denormals has np.spacing(0) == 0; the first session may ask for that. Exponents stay right.
    exponent = np.maximum(np.frexp(largest)[1] - 1, int(info.minexp))
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.nanmax(np.ldexp(gap, int(info.nmant) - exponent), initial=0.0))


def _top1_agreement(a: Numbers, b: Numbers, counted: NDArray[np.bool_]) -> float | None:
    """The share of rows whose largest element is at the same place, or as large there in both."""
    if a.ndim < 2 or a.shape[-1] < 2:
        return None
    rows = np.broadcast_to(counted.any(-1), a.shape[:-1])
    if not rows.any():
        return None
    first, second = a.argmax(-1)[..., None], b.argmax(-1)[..., None]
    tied = np.take_along_axis(a, first, -1) == np.take_along_axis(a, second, -1)
    return float(((first == second) | tied)[..., 0][rows].mean())


def valid_positions(output: str, array: Array, feeds: Feeds, model: Model) -> NDArray[np.bool_] | None:
    """True where ``array`` holds a real position, broadcastable to it; None where nothing is padded.

    Args:
        output: name of the output; a mask named for one side (``decoder_attention_mask``) is used for its own side.
        array: the reference's output, shape (batch, ..., sequence, ...).
        feeds: of the reference; masks are integer, boolean or float arrays of 0 and 1, shape (batch, sequence).
        model: of the reference.
    """
    info = next((one for one in model.outputs if one.name == output), None)
    for mask_info, mask in padding_masks(feeds, model.inputs):
        if array.ndim < 2 or array.shape[0] != mask.shape[0]:
            continue
        axis = _sequence_axis(array, mask, mask_info, info)
        if axis is not None:
            shape = [1] * array.ndim
            shape[0], shape[axis] = mask.shape
            valid: NDArray[np.bool_] = (np.asarray(mask) != 0).reshape(shape)
            return valid
    return None


def padding_masks(feeds: Feeds, inputs: Iterable[TensorInfo]) -> Iterator[tuple[TensorInfo, Array]]:
    """Feeds that hide padding: named a mask, of zeros and ones, the zeros of each row at its beginning or its end.

    A ``key_padding_mask`` is none: its ones are the padding.
    """
    for info in inputs:
        mask, name = feeds.get(info.name), info.name.lower()
        if mask is None or "mask" not in name or "padding" in name or np.ndim(mask) != 2:
            continue
        shown = np.asarray(mask) != 0
        steps = (shown[:, 1:] != shown[:, :-1]).sum(axis=1)
        if np.isin(mask, (0, 1)).all() and not shown.all() and (steps <= 1).all():
            yield info, np.asarray(mask)


def _sequence_axis(array: Array, mask: Array, mask_info: TensorInfo, info: TensorInfo | None) -> int | None:
    name = mask_info.shape[1] if mask_info.shape and len(mask_info.shape) == 2 else None
    fixed: set[int] = set()
    if isinstance(name, str) and info is not None and info.shape is not None and len(info.shape) == array.ndim:
        named = [axis for axis, size in enumerate(info.shape) if axis and size == name]
        if len(named) == 1 and array.shape[named[0]] == mask.shape[1]:
            return named[0]
        # the sequence is dynamic: an axis of fixed size, or of the mask's other name, only happens to be as long
        fixed = {axis for axis, size in enumerate(info.shape) if isinstance(size, int) or size in _names(mask_info)}
    same = [axis for axis in range(1, array.ndim) if axis not in fixed and array.shape[axis] == mask.shape[1]]
    return same[0] if len(same) == 1 else None


def _names(info: TensorInfo) -> set[str]:
    return {size for size in info.shape or () if isinstance(size, str)}
