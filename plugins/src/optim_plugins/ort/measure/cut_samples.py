"""Samples of one size stand for shorter ones too: each has its beginning beside it, a half to a sixteenth of it.

Ranges of activations that samples of one size showed end there: of a MiniLM in static 8 bits, fitted to texts of 128
tokens, the drift on one of 16 was 0.121, and 0.055 with these; on the others it was 0.081 and 0.079 at most. What is
longer than the samples errs little more, and longer ones made of two did not help.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from optim import Context, Model
from optim.arrays import Feeds
from optim.model import Dimension, TensorInfo
from optim.onnx import open_session
from optim_plugins.ort.measure.captured_values import MAPPED

_PARTS = (2, 4, 8, 16)
"""What a sample is divided by, in turns: one beginning of each takes a fourth more time, and two were hardly closer."""

_LEAST = 4
_ABOUT_ONE_SIZE = 2
"""Times that the longest sample may be as long as the shortest: other samples show other sizes themselves."""

_MOST_AXES = 3
"""Sequences have so many at most; of pictures nobody looked whether it helps."""

_Axes = Mapping[str, Sequence[int]]
"""By name of an input: those that are cut."""


def with_beginnings(model: Model, context: Context) -> Context:
    """The same context, whose samples are followed by beginnings of theirs.

    Only where the user's samples, two at least, have about one size of a dimension beside the batch that all inputs
    share and that the model takes at any, and as far as the model runs on them and gives finite numbers.
    """
    axes = _free_axes(model.inputs)
    if not (context.feeds_given and axes):
        return context
    sizes = [_size(feeds, axes) for feeds in context.samples()]
    if len(sizes) < 2 or min(sizes) < _PARTS[0] * _LEAST or max(sizes) > _ABOUT_ONE_SIZE * min(sizes):
        return context
    good = _that_run(model, list(_beginnings(context.samples(), axes)))
    found = copy.copy(context)

    def samples() -> Iterator[Feeds]:
        yield from context.samples()
        yield from good

    found.samples = samples
    return found


def _free_axes(inputs: Sequence[TensorInfo]) -> _Axes:
    """Axes of the one dimension beside the batch that is free; none where there are several, or pictures."""
    names: set[Dimension] = set()
    axes: dict[str, list[int]] = {}
    for info in inputs:
        shape = info.shape
        if shape is None or len(shape) > _MOST_AXES:
            return {}
        free = [axis for axis, size in enumerate(shape) if axis and not isinstance(size, int)]
        names |= {shape[axis] for axis in free}
        if free:
            axes[info.name] = free
    return axes if len(names) == 1 else {}


def _size(feeds: Feeds, axes: _Axes) -> int:
    """How long a sample is; 0 where its inputs differ in that."""
    sizes = {feeds[name].shape[axis] for name, those in axes.items() if name in feeds for axis in those}
    return sizes.pop() if len(sizes) == 1 else 0


def _beginnings(samples: Iterator[Feeds], axes: _Axes) -> Iterator[Feeds]:
    for number, feeds in enumerate(samples):
        size = max(_LEAST, _size(feeds, axes) // _PARTS[number % len(_PARTS)])
        cut = dict(feeds)
        for name, those in axes.items():
            for axis in those if name in feeds else ():
                cut[name] = np.ascontiguousarray(cut[name].take(range(size), axis=axis))
        yield cut


def _that_run(model: Model, samples: Sequence[Feeds]) -> list[Feeds]:
    """Those that the model runs on and gives finite numbers for."""
    names = {info.name for info in model.inputs}
    session = open_session(model.path, model.session, extra_config=MAPPED)
    good: list[Feeds] = []
    for feeds in samples:
        try:
            outputs = session.run(None, {name: array for name, array in feeds.items() if name in names})
        except Exception:  # a size that the model does not take after all
            continue
        if all(np.isfinite(array).all() for array in outputs if array.dtype.kind == "f"):
            good.append(feeds)
    return good
