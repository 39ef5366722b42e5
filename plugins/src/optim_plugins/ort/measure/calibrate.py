"""The range of every tensor that is to be quantized, measured on the samples in bounded memory.

First all ranges, with readers inside the graph, so that a run gives a few numbers for each tensor and no tensor::

    v -> ReduceMin, ReduceMax, Size, and the mean of each channel where weights' errors are made up for in the bias

Then, for the methods that need a histogram, the tensors themselves: as many at a time as memory allows, one sample at a
time, each counted and let go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from optim import Context, Model
from optim_plugins.ort.measure.captured_values import capture
from optim_plugins.ort.measure.channel_means import believed_means
from optim_plugins.ort.measure.channel_readers import add_channel_reader, values_named
from optim_plugins.ort.measure.integer_ranges import (
    BINS,
    Activation,
    Histogram,
    Range,
    average_range,
    choose_range,
    foreseen_range,
    whole_range,
)

_GROUP_BYTES = 192 << 20
_READERS = ("ReduceMin", "ReduceMax", "Size")


@dataclass(frozen=True, slots=True)
class CalibratedRanges:
    """How ranges are found.

    Attributes:
        method: ``minmax``, ``average``, ``foreseen``, ``percentile``, ``mse`` or ``entropy``.
        percentile: of values covered, for ``percentile``.
        levels: how many integers there are.
        activations: by name of a tensor, what reads it where nothing else does.
    """

    method: str
    percentile: float
    levels: int
    activations: Mapping[str, Activation] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SeenRanges:
    """What the samples showed.

    Attributes:
        ranges: by name of the tensor, of all samples; not finite where a sample had NaN or infinity there.
        foreseen: the same for a further sample; without those that are not finite.
        average: from the mean of the least values of the samples to that of the greatest; finite ones too.
        means: of each channel as far as the samples agree, float32 [C], by name of the tensor, for those that were
            asked for and finite.
        samples: how many there were.
    """

    ranges: dict[str, Range]
    means: dict[str, NDArray[np.float32]]
    samples: int
    foreseen: dict[str, Range] = field(default_factory=dict)
    average: dict[str, Range] = field(default_factory=dict)


def calibrate(
    graph: Callable[[], ir.Model],
    names: Sequence[str],
    channels: Mapping[str, int | None],
    how: CalibratedRanges,
    model: Model,
    context: Context,
) -> SeenRanges:
    """Measure the ranges of tensors.

    Args:
        graph: makes the float graph that the tensors are in, anew each time it is called.
        names: of the tensors, float32.
        channels: by name of a tensor whose means are wanted: how many channels its last axis has, or None where
            channels are the second axis.
        how: to find ranges.
        model: tells which inputs there are.
        context: gives the samples.

    Raises:
        OptimError[session-failed]: onnxruntime does not open the graph.
    """
    whole, sizes = _whole_ranges(graph(), names, channels, model, context)
    ranges = dict(whole.ranges)
    if how.method == "foreseen":
        ranges |= whole.foreseen
    elif how.method == "average":
        ranges |= whole.average
    elif how.method != "minmax":
        left = [name for name, one in ranges.items() if one.is_finite and one.high > one.low]
        for group in groups_that_fit(left, sizes):
            context.report_progress(0.0, f"counting values of {len(group)} tensors")
            asked = {name: whole.ranges[name] for name in group}
            for name, histogram in _histograms(graph(), asked, model, context):
                ranges[name] = choose_range(
                    histogram,
                    how.method,
                    percentile=how.percentile,
                    levels=how.levels,
                    activation=how.activations.get(name),
                )
    return replace(whole, ranges=ranges)


def _whole_ranges(
    graph: ir.Model, names: Sequence[str], channels: Mapping[str, int | None], model: Model, context: Context
) -> tuple[SeenRanges, dict[str, int]]:
    """Ranges that clip nothing, means, and the largest number of elements."""
    readers = {name: _reader(graph, value, number) for number, (name, value) in enumerate(values_named(graph, names))}
    averaged = values_named(graph, channels)
    averages = {name: add_channel_reader(graph, value, "ReduceMean", channels[name]) for name, value in averaged}
    wanted = [output for outputs in readers.values() for output in outputs] + list(averages.values())
    seen: dict[str, list[Range]] = {}
    sizes: dict[str, int] = {}
    means: dict[str, list[NDArray[np.float32]]] = {name: [] for name in averages}
    samples = 0
    for values in capture(graph, wanted, model, context):
        samples += 1
        for name, (low, high, size) in readers.items():
            if not int(values[size]):
                continue
            seen.setdefault(name, []).append(Range.around(float(values[low]), float(values[high])))
            sizes[name] = max(sizes.get(name, 0), int(values[size]))
        for name, output in averages.items():
            means[name].append(values[output].astype(np.float32))
    ranges = {name: whole_range(found) for name, found in seen.items()}
    foreseen = {name: foreseen_range(found) for name, found in seen.items() if ranges[name].is_finite}
    average = {name: average_range(found) for name, found in seen.items() if ranges[name].is_finite}
    return SeenRanges(ranges, believed_means(means), samples, foreseen, average), sizes


def _reader(graph: ir.Model, value: ir.Value, number: int) -> tuple[str, ...]:
    """Names of the outputs that tell the range and the size."""
    outputs = []
    for operator in _READERS:
        node = ir.node(operator, [value], {} if operator == "Size" else {"keepdims": 0})
        dtype = ir.DataType.INT64 if operator == "Size" else ir.DataType.FLOAT
        node.outputs[0].type, node.outputs[0].shape = ir.TensorType(dtype), ir.Shape([])
        node.outputs[0].name = f"optim_{operator}_{number}"
        graph.graph.append(node)
        outputs.append(node.outputs[0].name)
    return tuple(outputs)


def groups_that_fit(names: Sequence[str], sizes: Mapping[str, int]) -> Iterator[list[str]]:
    """As many tensors at a time as fit, by the largest that each was."""
    group: list[str] = []
    held = 0
    for name in names:
        held += 4 * sizes[name]
        if group and held > _GROUP_BYTES:
            yield group
            group, held = [], 4 * sizes[name]
        group.append(name)
    if group:
        yield group


def _histograms(
    graph: ir.Model, whole: dict[str, Range], model: Model, context: Context
) -> Iterator[tuple[str, Histogram]]:
    found = {name: Histogram(one, np.zeros(BINS, np.int64)) for name, one in whole.items()}
    for values in capture(graph, list(whole), model, context):
        for name in whole:
            found[name] = found[name].with_values(values[name].astype(np.float32, copy=False).reshape(-1))
    yield from found.items()
