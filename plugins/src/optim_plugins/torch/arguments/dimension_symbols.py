"""Names for dimensions, found by comparing shapes at two sets of sizes."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from optim import TensorInfo
from optim.arrays import Array
from optim.model import Dimension


def _name_axes(
    first: Sequence[int], second: Sequence[int], sizes: Mapping[str, int], other_sizes: Mapping[str, int]
) -> tuple[Dimension, ...]:
    """What each dimension of a shape follows.

    Args:
        first: the shape at ``sizes``.
        second: the shape at ``other_sizes``.
        sizes: of every name; no two names alike in both.
        other_sizes: the same names, every size another.

    Returns:
        The size where it stays, a name or a sum of two where that explains both, else None.
    """
    return tuple(a if a == b else _explained(a, b, sizes, other_sizes) for a, b in zip(first, second, strict=True))


def named_shapes(
    names: Sequence[str],
    first: Mapping[str, Array],
    second: Mapping[str, Array],
    sizes: Mapping[str, int],
    other_sizes: Mapping[str, int],
) -> list[TensorInfo]:
    """Outputs with named dimensions, from what they were at two sets of sizes."""
    found = []
    for name in names:
        a, b = first[name], second[name]
        shape = _name_axes(a.shape, b.shape, sizes, other_sizes) if a.ndim == b.ndim else None
        found.append(TensorInfo(name, a.dtype.name, shape))
    return found


def _explained(a: int, b: int, sizes: Mapping[str, int], other_sizes: Mapping[str, int]) -> Dimension:
    for name in sizes:
        if (sizes[name], other_sizes[name]) == (a, b):
            return name
    for left, right in itertools.combinations(sizes, 2):
        if (sizes[left] + sizes[right], other_sizes[left] + other_sizes[right]) == (a, b):
            return f"{left} + {right}"
    return None
