"""How far a model's outputs are from the reference model's on the same feeds.

The drift of an output is ``||other - reference|| / max(||reference||, 1e-6 * sqrt(n))`` in float64: the relative
Frobenius distance, with a floor so that an output of zeros does not divide by zero. A model's drift is the worst
over outputs and samples. Where an output mixes scales, its drift is that of its worst slices,
see :mod:`optim._engine.gate.scales`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from optim._engine.gate.foresight import foresee
from optim._engine.gate.masks import valid_positions
from optim._engine.gate.scales import worst_group
from optim.arrays import Array, Feeds, Outputs
from optim.errors import OptimError
from optim.model import TensorInfo

FLOOR_PER_ELEMENT = 1e-6


@dataclass(frozen=True, slots=True)
class Drift:
    """The figures of a model, each of its worst output over all samples.

    Attributes:
        relative_l2: unitless, >= 0; infinite where NaN or infinity appeared, or where shapes differ.
        max_abs: in the output's unit.
        cosine: of the flattened output, 1 is the same direction.
        foreseen: relative L2 that a further sample stays below, see :mod:`optim._engine.gate.foresight`; where few
            samples were seen, or none was looked at one by one, no more than ``relative_l2``.
    """

    relative_l2: float
    max_abs: float
    cosine: float
    foreseen: float = 0.0

    def worst(self, other: Drift) -> Drift:
        """The worse of each figure."""
        return Drift(
            max(self.relative_l2, other.relative_l2),
            max(self.max_abs, other.max_abs),
            min(self.cosine, other.cosine),
            max(self.foreseen, other.foreseen),
        )


NO_DRIFT = Drift(0.0, 0.0, 1.0)


@dataclass(frozen=True, slots=True)
class OutputComparison:
    """One output of one model against the reference; the figures are those of equal arrays where none are given.

    Attributes:
        name: of the output.
        dtype: numpy name in the candidate.
        shape: in the candidate.
        compared: elements compared; padding is left out.
        relative_l2: see the module.
        max_abs: largest absolute difference.
        cosine: of the flattened arrays.
        sqnr_db: signal to quantization noise ratio, 20 log10(||reference|| / ||difference||), in dB.
        max_ulp: largest distance in units in the last place of the larger of the two, None for other than floats.
        top1_agreement: share of rows whose largest element is at the same place, None below two columns.
        problem: what makes it incomparable or infinitely far, or empty.
        limit: relative L2 that this output alone is held to, in place of the budget; None for most.
        each: relative L2 of every sample, where several were compared; empty for one.
        overflowed: whether NaN or infinity appeared in an output that is as it should be otherwise.
        slices: where ``relative_l2`` is that of some slices, see :mod:`optim._engine.gate.scales`; else empty.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    compared: int = 0
    relative_l2: float = 0.0
    max_abs: float = 0.0
    cosine: float = 1.0
    sqnr_db: float = math.inf
    max_ulp: float | None = None
    top1_agreement: float | None = None
    problem: str = ""
    limit: float | None = None
    each: tuple[float, ...] = ()
    overflowed: bool = False
    slices: str = ""

    @property
    def drift(self) -> Drift:
        """The figures that the gate looks at."""
        return Drift(self.relative_l2, self.max_abs, self.cosine, self.foreseen)

    @property
    def foreseen(self) -> float:
        """Relative L2 that a further sample stays below."""
        return max(self.relative_l2, foresee(self.each))

    @property
    def by_sample(self) -> tuple[float, ...]:
        """Relative L2 of every sample."""
        return self.each or (self.relative_l2,)

    def worst(self, other: OutputComparison) -> OutputComparison:
        """The same output over two samples: the worse of each figure."""
        return replace(
            self,
            compared=self.compared + other.compared,
            relative_l2=max(self.relative_l2, other.relative_l2),
            max_abs=max(self.max_abs, other.max_abs),
            cosine=min(self.cosine, other.cosine),
            sqnr_db=min(self.sqnr_db, other.sqnr_db),
            max_ulp=_both(max, self.max_ulp, other.max_ulp),
            top1_agreement=_both(min, self.top1_agreement, other.top1_agreement),
            problem=self.problem or other.problem,
            each=(*self.by_sample, *other.by_sample),
            overflowed=self.overflowed if self.problem else other.overflowed,
            slices=self.slices if self.relative_l2 >= other.relative_l2 else other.slices,
        )


def compare_sample(
    reference: Outputs, other: Outputs, feeds: Feeds, inputs: Iterable[TensorInfo], outputs: Iterable[TensorInfo]
) -> list[OutputComparison]:
    """Compare every output of one run.

    Args:
        reference: outputs of the reference model by name.
        other: outputs of the candidate, already mapped back to the reference's names.
        feeds: what the reference was fed; its attention mask says which positions are padding.
        inputs: of the reference model, for their symbolic dimensions.
        outputs: of the reference model.

    Raises:
        OptimError[nothing-compared]: there is no output, or not one element.
    """
    infos = {info.name: info for info in outputs}
    inputs = tuple(inputs)
    results = []
    for name, expected in reference.items():
        if name not in other:
            results.append(_incomparable(OutputComparison(name, "", ()), f"output '{name}' is missing"))
            continue
        valid = valid_positions(name, expected, feeds, inputs, infos.get(name))
        results.append(compare_output(name, expected, other[name], valid))
    if not results or not any(result.compared or result.problem for result in results):
        raise OptimError(
            "nothing-compared",
            "the models have nothing to compare",
            "on a sample no output has a single element",
            "give --data of which every sample gives an output: no input may be empty",
        )
    return results


def compare_output(
    name: str, reference: Array, other: Array, valid: NDArray[np.bool_] | None = None
) -> OutputComparison:
    """Compare one output.

    Args:
        name: of the output.
        reference: any dtype, any shape.
        other: the candidate's; another shape or kind of dtype is a problem, not an exception.
        valid: broadcastable to the shape; False where a position is padding.
    """
    reference, other = np.asarray(reference), np.asarray(other)
    found = OutputComparison(name, str(other.dtype), tuple(other.shape))
    if reference.shape != other.shape:
        return _incomparable(found, f"shape {list(reference.shape)} became {list(other.shape)}")
    if reference.dtype.kind in "SUO" or other.dtype.kind in "SUO":
        return _compare_exactly(found, reference, other)
    if reference.dtype != other.dtype:
        return _incomparable(found, f"dtype {reference.dtype} became {other.dtype}")
    rows = _top1_agreement(reference, other, valid)
    whole, whole_other = reference, other
    if valid is not None:
        chosen = np.broadcast_to(valid, reference.shape)
        reference, other = reference[chosen], other[chosen]
    a, b = reference.astype(np.float64).ravel(), other.astype(np.float64).ravel()
    if not a.size:
        return found
    if nans := int((np.isnan(b) & ~np.isnan(a)).sum()):
        return replace(_incomparable(found, f"{nans} elements became NaN"), overflowed=True)
    if nans := int((np.isnan(a) & ~np.isnan(b)).sum()):
        return _incomparable(found, f"{nans} elements are NaN in the reference only")
    infinite = np.isinf(a) | np.isinf(b)
    if moved := int((a[infinite] != b[infinite]).sum()):
        return replace(_incomparable(found, f"{moved} elements became, or are no longer, infinite"), overflowed=True)
    finite = np.isfinite(a) & np.isfinite(b)
    ulp = _max_ulp(reference.ravel()[finite], other.ravel()[finite])
    found = _with_figures(replace(found, max_ulp=ulp, top1_agreement=rows), a[finite], b[finite])
    return _held_by_slices(found, whole, whole_other, valid) if finite.all() else found


def _held_by_slices(
    found: OutputComparison, reference: Array, other: Array, valid: NDArray[np.bool_] | None
) -> OutputComparison:
    """The comparison, with the drift of the worst slices where the output mixes scales."""
    if reference.dtype.kind != "f" or not found.relative_l2:
        return found
    mask = np.ones((), bool) if valid is None else valid
    a, b = (np.where(mask, array, 0).astype(np.float64) for array in (reference, other))
    worst = worst_group(a, b)
    if worst is None or worst[0].relative_l2 <= found.relative_l2:
        return found
    return replace(found, relative_l2=worst[0].relative_l2, slices=worst[0].text(worst[1]))


def mixed_outputs(outputs: Outputs) -> dict[str, str]:
    """Outputs of which slices differ in scale by orders of magnitude, with which these are."""
    floats = {name: array.astype(np.float64) for name, array in outputs.items() if array.dtype.kind == "f"}
    found = {name: worst_group(a, a) for name, a in floats.items() if a.size and np.isfinite(a).all()}
    return {name: group[0].text(group[1]) for name, group in found.items() if group is not None}


def faint_outputs(samples: Iterable[Outputs]) -> dict[str, float]:
    """Outputs so near to zero on every sample that their drift says little, with their largest magnitude."""
    largest: dict[str, float] = {}
    for outputs in samples:
        for name, array in outputs.items():
            if array.dtype.kind == "f" and array.size:
                largest[name] = max(largest.get(name, 0.0), float(np.abs(array).max()))
    return {name: value for name, value in largest.items() if value < FLOOR_PER_ELEMENT}


def only_nan(samples: Iterable[Outputs]) -> bool:
    """Whether not one number came out: every element of every output, on every sample, is NaN."""
    seen = False
    for outputs in samples:
        for array in outputs.values():
            if array.dtype.kind not in "fc" or not np.isnan(array).all():
                return False
            seen = seen or bool(array.size)
    return seen


def worst_drift(comparisons: Iterable[OutputComparison]) -> Drift:
    """The drift of a model: the worst of every figure over its outputs but those with a limit of their own."""
    total = NO_DRIFT
    for comparison in comparisons:
        total = total.worst(comparison.drift) if comparison.limit is None or comparison.problem else total
    return total


def merge_samples(
    total: Mapping[str, OutputComparison], sample: Iterable[OutputComparison]
) -> dict[str, OutputComparison]:
    """Fold one sample's comparisons into the worst so far, by output."""
    merged = dict(total)
    for comparison in sample:
        merged[comparison.name] = merged[comparison.name].worst(comparison) if comparison.name in merged else comparison
    return merged


def _with_figures(found: OutputComparison, a: NDArray[np.float64], b: NDArray[np.float64]) -> OutputComparison:
    if not a.size:  # the same NaN or infinity everywhere
        return found
    difference = b - a
    noise, signal, other = (math.sqrt(_dot(v, v)) for v in (difference, a, b))
    cosine = 1.0 if noise == 0 else _dot(a, b) / (signal * other) if signal and other else 0.0
    return replace(
        found,
        compared=int(a.size),
        relative_l2=noise / max(signal, FLOOR_PER_ELEMENT * math.sqrt(a.size)),
        max_abs=float(np.abs(difference).max()),
        cosine=max(-1.0, min(1.0, cosine)),
        sqnr_db=math.inf if noise == 0 else 20 * math.log10(signal / noise) if signal else -math.inf,
    )


def _dot(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """The inner product in one thread: that of BLAS waits for threads which a session's own keep from running."""
    return float(np.einsum("i,i->", a, b))


def _compare_exactly(found: OutputComparison, reference: Array, other: Array) -> OutputComparison:
    different = int((reference != other).sum())
    if different:
        return _incomparable(found, f"{different} of {reference.size} strings differ")
    return replace(found, compared=int(reference.size))


def _incomparable(found: OutputComparison, problem: str) -> OutputComparison:
    """The comparison as infinitely far."""
    far = replace(found, relative_l2=math.inf, max_abs=math.inf, cosine=-1.0, sqnr_db=-math.inf)
    return replace(far, problem=problem)


def _max_ulp(reference: Array, other: Array) -> float | None:
    if reference.dtype.kind != "f" or not reference.size:
        return None
    larger = np.maximum(np.abs(reference), np.abs(other))
    spacing = np.spacing(larger).astype(np.float64)
    return float((np.abs(other.astype(np.float64) - reference.astype(np.float64)) / spacing).max())


def _top1_agreement(reference: Array, other: Array, valid: NDArray[np.bool_] | None) -> float | None:
    if reference.ndim < 2 or reference.shape[-1] < 2 or not reference.size:
        return None
    same = reference.argmax(-1) == other.argmax(-1)
    if valid is not None:
        rows = np.broadcast_to(valid, reference.shape).any(-1)
        if not rows.any():
            return None
        same = same[rows]
    return float(same.mean())


def _both(choose: object, a: float | None, b: float | None) -> float | None:
    if a is None or b is None:
        return a if b is None else b
    return max(a, b) if choose is max else min(a, b)
