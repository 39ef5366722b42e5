"""Names and sizes of dimensions: which of them vary is seen from two or three examples.

examples          tokens [2, 5]    tokens [3, 7]
dimension 0       (2, 3)           a name of its own
dimension 1       (5, 7)           another; wherever (5, 7) is seen again it is the same one
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from optim import TensorInfo
from optim.arrays import Array
from optim.model import Dimension

_PAST = "past"
_PLANS = {1: (1, 5, 2), 2: (3, 7, 4), 3: (1, 1, 0)}
"""By trial: size of the batch, of the first other dimension, and how much larger each further one is."""


@dataclass(frozen=True, slots=True)
class Shapes:
    """The dimensions of a module's inputs.

    Attributes:
        names: by input, a name for each dimension that varies, else its size.
        first: by name, its size in the first example.
        sums: by name, two others that it is the sum of in every example.
        growing: by input, the dimensions that a state grows by.
    """

    names: Mapping[str, tuple[Dimension, ...]]
    first: Mapping[str, int]
    sums: Mapping[str, tuple[str, str]]
    growing: Mapping[str, tuple[int, ...]]

    def of(self, name: str) -> tuple[Dimension, ...]:
        """The shape of an input."""
        return self.names[name]

    def symbols(self) -> list[str]:
        """Names of all dimensions that vary."""
        return list(dict.fromkeys(size for shape in self.names.values() for size in shape if isinstance(size, str)))

    def past(self) -> list[str]:
        """Names of dimensions that a state grows by."""
        found = [self.names[name][axis] for name, axes in self.growing.items() for axis in axes]
        return [name for name in dict.fromkeys(found) if isinstance(name, str)]

    def laid_under(self, inputs: Sequence[TensorInfo], examples: Sequence[Mapping[str, Array]]) -> Shapes:
        """With the names that the user gave."""
        names = {info.name: info.shape or () for info in inputs}
        first: dict[str, int] = {}
        vectors: dict[str, tuple[int, ...]] = {}
        for name, shape in names.items():
            for axis, symbol in enumerate(shape):
                if isinstance(symbol, str):
                    first.setdefault(symbol, examples[0][name].shape[axis])
                    vectors.setdefault(symbol, tuple(example[name].shape[axis] for example in examples))
        return replace(self, names=names, first=first, sums=_sums(vectors))

    def example_sizes(self) -> dict[str, int]:
        """Sizes for the exporter: at least 2, no two names alike, those of the first example where they do."""
        sizes: dict[str, int] = {}
        for name in self.symbols():
            wanted = self.first.get(name, 2)
            while wanted < 2 or wanted in sizes.values():
                wanted += 1
            sizes[name] = wanted
        return self._summed(sizes)

    def sizes(self, index: int, empty: Sequence[str] = ()) -> dict[str, int]:
        """The sizes of trial ``index``, 1 to 3; what is named in ``empty`` is 0."""
        batch, first, step = _PLANS[index]
        others = [name for name in self.symbols() if "batch" not in name]
        sizes = {name: first + number * step for number, name in enumerate(others)}
        sizes |= {name: batch for name in self.symbols() if "batch" in name}
        return self._summed(sizes | dict.fromkeys(empty, 0))

    def _summed(self, sizes: dict[str, int]) -> dict[str, int]:
        for name, (left, right) in self.sums.items():
            sizes[name] = sizes[left] + sizes[right]
        return sizes


def infer_shapes(examples: Sequence[Mapping[str, Array]], growing: Mapping[str, tuple[int, ...]]) -> Shapes:
    """Which dimensions vary, by comparing examples; those that a state grows by vary too."""
    known: dict[tuple[int, ...], str] = {}
    names: dict[str, tuple[Dimension, ...]] = {}
    vectors: dict[str, tuple[int, ...]] = {}
    for name, array in examples[0].items():
        shape: list[Dimension] = []
        for axis, size in enumerate(array.shape):
            vector = tuple(example[name].shape[axis] for example in examples)
            if axis in growing.get(name, ()):
                shape.append(_PAST)
            elif len(set(vector)) > 1:
                shape.append(known.setdefault(vector, _name(name, axis, known)))
                vectors.setdefault(str(shape[-1]), vector)
            else:
                shape.append(size)
        names[name] = tuple(shape)
    first = {symbol: vector[0] for symbol, vector in vectors.items()}
    return Shapes(names, first, _sums(vectors), growing)


def resized(array: Array, info: TensorInfo, sizes: Mapping[str, int], random: np.random.Generator) -> Array:
    """An array of another size, with values drawn from the example's own."""
    shape = tuple(sizes[size] if isinstance(size, str) else int(size or 0) for size in info.shape or ())
    if shape == array.shape:
        return array
    if not array.size:
        noise = random.standard_normal(shape) if array.dtype.kind not in "iub" else np.zeros(shape)
        return np.asarray(noise.astype(array.dtype))
    drawn: Array = random.choice(array.reshape(-1), shape)
    return drawn.astype(array.dtype)


def padded(name: str, array: Array) -> Array:
    """A mask of ones with padding in every row but the first; anything else as it is."""
    if "mask" not in name or array.ndim != 2 or array.shape[1] < 2 or not (array == 1).all():
        return array
    found = array.copy()
    for row in range(1, len(found)):
        found[row, -min(row, found.shape[1] - 1) :] = 0
    return found


def _name(tensor: str, axis: int, known: Mapping[tuple[int, ...], str]) -> str:
    if axis == 0 and "batch" not in known.values():
        return "batch"
    return f"{tensor.replace('.', '_')}_{axis}"


def _sums(vectors: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[str, str]]:
    """Dimensions that are the sum of two others in every example, and are called so or seen in several."""
    found: dict[str, tuple[str, str]] = {}
    for name, vector in vectors.items():
        for left, right in itertools.combinations([other for other in vectors if other != name], 2):
            total = tuple(a + b for a, b in zip(vectors[left], vectors[right], strict=True))
            if total == vector and (len(set(vector)) > 1 or "total" in name) and left not in found:
                found[name] = (left, right)
                break
    return found
