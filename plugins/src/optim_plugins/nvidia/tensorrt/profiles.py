"""Optimization profiles of TensorRT: the sizes that one engine is built for, from the samples.

Without them the provider builds an engine for the first shapes that it sees, and again whenever a size grows: seconds
to minutes in the middle of a run. https://onnxruntime.ai/docs/execution-providers/TensorRT-ExecutionProvider.html
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from itertools import combinations_with_replacement

from optim import TensorInfo
from optim.arrays import Feeds

_Sizes = dict[str, tuple[int, ...]]

_BETWEEN = (",", ":", "/", "\\")
"""What a name must not have: it stands between names and sizes, or may be a place on the disk."""


def profile_options(inputs: Iterable[TensorInfo], samples: Iterable[Feeds]) -> tuple[Mapping[str, str], str]:
    """Options with the least and the greatest size of each axis of each dynamic input, and the most frequent sizes.

    TensorRT tries the least sizes together, and the greatest: where an axis is the sum of two others in every sample
    (all tokens: those of the past and new ones) it is so in both.

    Args:
        inputs: of the model.
        samples: whose shapes are taken.

    Returns:
        The options, and why there are none where the model is dynamic.
    """
    dynamic = [info for info in inputs if info.is_dynamic]
    if not dynamic:
        return {}, ""
    shapes: dict[str, list[tuple[int, ...]]] = {info.name: [] for info in dynamic}
    for feeds in samples:
        for name, found in shapes.items():
            found.append(feeds[name].shape)
    odd = [name for name, found in shapes.items() if not found or any(one in name for one in _BETWEEN)]
    if odd:
        return {}, f"no profile: input '{odd[0]}' has no sample, or a name that the option cannot hold"
    if any(0 in shape for found in shapes.values() for shape in found):
        return {}, "no profile: a sample has an axis of size 0, and TensorRT builds no engine for it"
    rows = [dict(zip(shapes, each, strict=True)) for each in zip(*shapes.values(), strict=True)]
    chosen = {"min": _bound(rows, min), "opt": _most_frequent(rows), "max": _bound(rows, max)}
    return {f"trt_profile_{which}_shapes": _text(sizes) for which, sizes in chosen.items()}, ""


def _most_frequent(rows: list[_Sizes]) -> _Sizes:
    """Those of one sample: of two that are as frequent the greater one."""
    counts = Counter(tuple(row.items()) for row in rows)
    best = max(counts.items(), key=lambda item: (item[1], [shape for _, shape in item[0]]))
    return dict(best[0])


def _bound(rows: list[_Sizes], pick: Callable[[Iterable[int]], int]) -> _Sizes:
    """The least or greatest sizes, sums kept; a size that is the same in every sample stays."""
    columns = {
        (name, axis): [row[name][axis] for row in rows] for name in rows[0] for axis in range(len(rows[0][name]))
    }
    bounds = {place: pick(sizes) for place, sizes in columns.items()}
    varying = {tuple(sizes): place for place, sizes in reversed(columns.items()) if len(set(sizes)) > 1}
    sums = {
        tuple(map(sum, zip(one, two, strict=True))): bounds[varying[one]] + bounds[varying[two]]
        for one, two in combinations_with_replacement(varying, 2)
    }
    for place, sizes in columns.items():
        if len(set(sizes)) > 1:
            bounds[place] = sums.get(tuple(sizes), bounds[place])
    return {name: tuple(bounds[name, axis] for axis in range(len(shape))) for name, shape in rows[0].items()}


def _text(sizes: Mapping[str, tuple[int, ...]]) -> str:
    return ",".join(f"{name}:{'x'.join(map(str, shape))}" for name, shape in sizes.items() if shape)
