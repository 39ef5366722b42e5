"""Outputs that are next to nothing on a sample: what rounding does to them says nothing of their own size.

A detector of text computes a probability for each pixel, ``Sigmoid(z)``. On a picture without text they are 4e-6, and
rounding moves them by 1e-7, since a Sigmoid is computed as half of ``1 + tanh(z / 2)``: relative to the output that is
some per cent, and no change of the graph is lossless. Taking it for the tolerance of all samples would hide errors of
per cents on pictures that have text.

So each output has a floor on each sample, below which its size is not what its rounding comes from::

    floor = noise / 1e-5                    noise: root mean square of what settings that should not matter change

where noise is below 1e-6, as of numbers near 1 in float32. Of a chain without a lossy pass drift is relative to
``max(output, floor)``: within the tolerance of 1e-4 it moves such an output by ten times what the original's own
settings do, as any other. A lossy chain is held as ever: zeros in the place of probabilities of 4e-6 drift by 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

_ORDINARY = 1e-5
"""What rounding does to an output of ordinary size; ten times that is the least tolerance."""

_MOST_NOISE = 1e-6
"""Root mean square. More comes of large numbers, or of an original that is not sure of its own outputs."""


def floor_of(noise: float, size: float) -> float:
    """The root mean square below which an output's size says nothing; 0 where it is large enough.

    Args:
        noise: root mean square of what rounding changes on a sample.
        size: of the output itself.
    """
    return noise / _ORDINARY if 0 < noise < _MOST_NOISE and noise > _ORDINARY * size else 0.0


def with_unmeasured(floors: Mapping[int, float], samples: Iterable[int]) -> tuple[float, ...]:
    """The floor of each sample: where it was not measured the least that was, so that it hides nothing.

    Args:
        floors: by sample, those that were measured.
        samples: all of them.
    """
    least = min((floor for floor in floors.values() if floor), default=0.0)
    return tuple(floors.get(sample, least) for sample in samples)


def floors_on(quiet: Mapping[str, Sequence[float]], place: int) -> dict[str, float]:
    """The floors of outputs on the sample at a place."""
    return {name: floors[place] for name, floors in quiet.items() if floors[place]}
