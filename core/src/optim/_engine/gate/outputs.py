"""Comparing outputs: each output of one run against the reference's, element by element.

A model may compute anything at a padded position, and different kernels do. Such positions are left out where an
output carries the sequence dimension of an attention mask among the feeds: by its symbolic name where the graph names
it, else by its size where only one dimension of the output has that size.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from optim._engine.gate.drift import DIFFERENCES, OutputComparison
from optim._engine.gate.scales import worst_group
from optim.arrays import Array, Feeds, Outputs
from optim.errors import OptimError
from optim.model import Model, TensorInfo

FLOOR_PER_ELEMENT = 1e-6
"""Of the root mean square: the drift of an output of zeros would be infinite without."""


def compare_sample(
    reference: Outputs,
    other: Outputs,
    feeds: Feeds,
    inputs: Iterable[TensorInfo],
    outputs: Iterable[TensorInfo],
    mixed: Collection[str] | None = None,
    floors: Mapping[str, float] | None = None,
) -> list[OutputComparison]:
    """Compare every output of one run.

    Args:
        reference: outputs of the reference model by name.
        other: outputs of the candidate, already mapped back to the reference's names.
        feeds: what the reference was fed; its attention mask says which positions are padding.
        inputs: of the reference model, for their symbolic dimensions.
        outputs: of the reference model.
        mixed: outputs that mix scales, where that was looked at before; None: it is looked at.
        floors: of outputs that are next to nothing on this sample, see :mod:`optim._engine.gate.quiet`.

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
        by_slices = mixed is None or name in mixed
        floor = (floors or {}).get(name, 0.0)
        results.append(compare_output(name, expected, other[name], valid, by_slices=by_slices, floor=floor))
    if not results or not any(result.compared or result.problem for result in results):
        raise _nothing_compared(reference)
    return results


def _nothing_compared(reference: Outputs) -> OptimError:
    """Why nothing of these outputs could be compared."""
    what = "the models have nothing to compare"
    if any(np.size(array) for array in reference.values()):
        cause = "on a sample no output has a finite number, padding left out"
        return OptimError("nothing-compared", what, cause, "give --data on which the model computes finite numbers")
    return OptimError(
        "nothing-compared",
        what,
        "on a sample no output has a single element",
        "give --data of which every sample gives an output: no input may be empty",
    )


def compare_output(
    name: str,
    reference: Array,
    other: Array,
    valid: NDArray[np.bool_] | None = None,
    *,
    by_slices: bool = True,
    floor: float = 0.0,
) -> OutputComparison:
    """Compare one output.

    Args:
        name: of the output.
        reference: any dtype, any shape.
        other: the candidate's; another shape or kind of dtype is a problem, not an exception.
        valid: broadcastable to the shape; False where a position is padding.
        by_slices: whether the reference may mix scales.
        floor: root mean square that the reference counts for at least where nothing lossy was done.
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
    found = _with_figures(replace(found, max_ulp=ulp, top1_agreement=rows), a[finite], b[finite], floor)
    return _held_by_slices(found, whole, whole_other, valid) if by_slices and finite.all() else found


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
    return replace(found, relative_l2=worst[0].relative_l2, quiet=None, slices=worst[0].text(worst[1]))


def mixed_outputs(outputs: Outputs) -> dict[str, str]:
    """Outputs of which slices differ in scale by orders of magnitude, with which these are."""
    floats = {name: array.astype(np.float64) for name, array in outputs.items() if array.dtype.kind == "f"}
    found = {name: worst_group(a, a) for name, a in floats.items() if a.size and np.isfinite(a).all()}
    return {name: group[0].text(group[1]) for name, group in found.items() if group is not None}


def without_padding(outputs: Outputs, feeds: Feeds, model: Model) -> dict[str, Array]:
    """Outputs that have padded positions, with zeros there."""
    infos = {info.name: info for info in model.outputs}
    valid = {
        name: valid_positions(name, array, feeds, model.inputs, infos.get(name)) for name, array in outputs.items()
    }
    return {name: np.where(mask, outputs[name], 0) for name, mask in valid.items() if mask is not None}


def magnitudes(outputs: Outputs, feeds: Feeds, model: Model) -> dict[str, float]:
    """Root mean square of each output of floats, padding left out; :data:`FLOOR_PER_ELEMENT` at least."""
    found = {**outputs, **without_padding(outputs, feeds, model)}
    floats = {name: array.astype(np.float64) for name, array in found.items() if array.dtype.kind == "f" and array.size}
    return {name: max(FLOOR_PER_ELEMENT, float(np.sqrt(np.mean(np.square(one))))) for name, one in floats.items()}


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


def _with_figures(
    found: OutputComparison, a: NDArray[np.float64], b: NDArray[np.float64], floor: float
) -> OutputComparison:
    if not a.size:  # the same NaN or infinity everywhere
        return found
    difference = b - a
    noise, signal, other = (math.sqrt(_dot(v, v)) for v in (difference, a, b))
    cosine = 1.0 if noise == 0 else _dot(a, b) / (signal * other) if signal and other else 0.0
    least = max(floor, FLOOR_PER_ELEMENT) * math.sqrt(a.size)
    return replace(
        found,
        compared=int(a.size),
        quiet=noise / least if floor and signal < least else None,
        relative_l2=noise / max(signal, FLOOR_PER_ELEMENT * math.sqrt(a.size)),
        max_abs=float(np.abs(difference).max()),
        above=_counts(np.abs(difference)),
        cosine=max(-1.0, min(1.0, cosine)),
        sqnr_db=math.inf if noise == 0 else 20 * math.log10(signal / noise) if signal else -math.inf,
    )


def _counts(differences: NDArray[np.float64]) -> dict[str, int]:
    places = np.searchsorted([float(limit) for limit in DIFFERENCES], differences, side="left")
    counts = np.bincount(places, minlength=len(DIFFERENCES) + 1)[::-1].cumsum()[::-1]
    return {limit: int(count) for limit, count in zip(DIFFERENCES, counts[1:], strict=True)}


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
    far = replace(found, relative_l2=math.inf, quiet=None, max_abs=math.inf, cosine=-1.0, sqnr_db=-math.inf)
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


def valid_positions(
    output: str, array: Array, feeds: Feeds, inputs: tuple[TensorInfo, ...], info: TensorInfo | None
) -> NDArray[np.bool_] | None:
    """True where ``array`` holds a real position, broadcastable to it; None where nothing is padded.

    Args:
        output: name of the output; a mask named for one side (``decoder_attention_mask``) is used for its own side.
        array: the reference's output, shape (batch, ..., sequence, ...).
        feeds: of the reference; masks are integer, boolean or float arrays of 0 and 1, shape (batch, sequence).
        inputs: of the reference model.
        info: of the output.
    """
    for mask_info in inputs:
        mask = feeds.get(mask_info.name)
        if mask is None or "mask" not in mask_info.name.lower() or np.ndim(mask) != 2:
            continue
        if not np.isin(mask, (0, 1)).all() or np.all(mask != 0) or array.ndim < 2 or array.shape[0] != mask.shape[0]:
            continue
        axis = _sequence_axis(array, mask, mask_info, info)
        if axis is not None:
            shape = [1] * array.ndim
            shape[0], shape[axis] = mask.shape
            valid: NDArray[np.bool_] = (np.asarray(mask) != 0).reshape(shape)
            return valid
    return None


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
