"""Optimization profiles of TensorRT: the sizes that one engine is built for, from the samples.

Without them the provider builds an engine for the first shapes that it sees, and again whenever a size grows: seconds
to minutes in the middle of a run. https://onnxruntime.ai/docs/execution-providers/TensorRT-ExecutionProvider.html
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from optim import TensorInfo
from optim.arrays import Feeds

_BETWEEN = (",", ":", "/", "\\")
"""What a name must not have: it stands between names and sizes, or may be a place on the disk."""


def profile_options(inputs: Iterable[TensorInfo], samples: Iterable[Feeds]) -> tuple[Mapping[str, str], str]:
    """Options with the least, the most frequent and the greatest size of each axis of each dynamic input.

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
        return {}, "no profile: a sample has an axis of size 0, for which TensorRT builds no engine"
    chosen = {
        "min": {name: tuple(map(min, zip(*found, strict=True))) for name, found in shapes.items()},
        "opt": {name: tuple(map(_most_frequent, zip(*found, strict=True))) for name, found in shapes.items()},
        "max": {name: tuple(map(max, zip(*found, strict=True))) for name, found in shapes.items()},
    }
    return {f"trt_profile_{which}_shapes": _text(sizes) for which, sizes in chosen.items()}, ""


def _most_frequent(sizes: Iterable[int]) -> int:
    """The greater one of two that are as frequent."""
    counts = Counter(sizes)
    return max(counts, key=lambda size: (counts[size], size))


def _text(sizes: Mapping[str, tuple[int, ...]]) -> str:
    return ",".join(f"{name}:{'x'.join(map(str, shape))}" for name, shape in sizes.items() if shape)
