"""The mean of each channel of a tensor, as far as the samples agree on it.

Rounded weights err by ``x (W - W_q)``, of which ``mean(x) (W - W_q)`` is the same for every input: a bias takes it away
and costs nothing (Nagel et al., "Data-Free Quantization Through Weight Equalization and Bias Correction", 2019). What
it takes away is right on other samples as far as these have the same mean. So of what n samples showed, means m of a
channel, this share is believed::

    mean(m)^2 / (mean(m)^2 + variance(m) / n)

which is least wrong where further samples are like these. One sample tells no variance, and is believed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from optim import Context, Model
from optim_plugins.ort.measure.captured_values import capture
from optim_plugins.ort.measure.channel_readers import add_channel_reader, values_named

_SAMPLES = 16
"""More say little: the mean of 16 errs by a quarter of what samples differ by."""

Means = Mapping[str, NDArray[np.float32]]
"""By name of a tensor: float32 [K]."""


def channel_means(graph: ir.Model, channels: Mapping[str, int], model: Model, context: Context) -> Means:
    """The means of tensors in the main graph.

    Args:
        graph: float graph to measure in; its outputs are changed.
        channels: how many channels the last axis has, by name of the tensor.
        model: tells which inputs there are.
        context: gives the samples.

    Returns:
        Nothing for a tensor in a branch, that no sample reached, or that was not finite on one.
    """
    known = context.known("channel means")
    readers = {
        name: add_channel_reader(graph, value, "ReduceMean", channels[name])
        for name, value in values_named(graph, [name for name in channels if name not in known])
    }
    seen: dict[str, list[NDArray[np.float32]]] = {name: [] for name in readers}
    for values in islice(capture(graph, list(readers.values()), model, context), _SAMPLES if readers else 0):
        for name, output in readers.items():
            seen[name].append(values[output].astype(np.float32))
    known |= seen
    return believed_means({name: known[name] for name in channels if name in known})


def believed_means(seen: Mapping[str, Sequence[NDArray[np.float32]]]) -> dict[str, NDArray[np.float32]]:
    """The mean of each tensor's channels by its name, of what samples showed; without those that are not finite."""
    means = {name: believed_mean(found) for name, found in seen.items() if found}
    return {name: mean for name, mean in means.items() if np.isfinite(mean).all()}


def believed_mean(samples: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    """The mean of each channel, drawn to zero by what samples differ.

    Args:
        samples: the mean [K] on each, at least one.

    Returns:
        float32 [K]; NaN where one was not finite.
    """
    found = np.asarray(samples, np.float64)
    mean: NDArray[np.float64] = found.mean(axis=0)
    if len(found) > 1:
        square = mean**2
        unsure = found.var(axis=0, ddof=1) / len(found)
        mean *= square / np.maximum(square + unsure, np.finfo(np.float64).tiny)
    return np.asarray(mean, np.float32)
