"""A pair of models with the verdicts that are accepted for it, and the list of generators that make such pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import onnx

from gate.sketch import Sample, Sketch


class Verdict(StrEnum):
    """What verify says of two models."""

    EQUAL = "equal up to rounding"
    WITHIN = "within the default budget"
    REFUSED = "refused"
    NOT_JUDGED = "not judged"
    ERROR = "error"


ONLY_REFUSED = frozenset({Verdict.REFUSED})
"""For a difference that the samples show."""

NOT_EQUAL = frozenset({Verdict.REFUSED, Verdict.WITHIN, Verdict.NOT_JUDGED})
"""For a small difference: a budget may allow it, but rounding does not explain it."""

NOT_SHOWN = frozenset({Verdict.REFUSED, Verdict.NOT_JUDGED, Verdict.ERROR})
"""For a difference that the samples do not show, or that verify cannot compare."""

ONLY_EQUAL = frozenset({Verdict.EQUAL})
"""For a right pair."""

EQUAL_OR_NOT_JUDGED = frozenset({Verdict.EQUAL, Verdict.NOT_JUDGED})
"""For a right pair with an output that cannot show a difference."""

ACCEPTED = frozenset({Verdict.EQUAL, Verdict.WITHIN})
"""For a right pair in which rounding is amplified, for example by a step of a quantizer."""


@dataclass(frozen=True, slots=True)
class Size:
    """Sizes of a pair.

    Attributes:
        name: in the name of a case.
        batch: rows of a sample.
        length: positions, e.g. tokens.
        width: features.
        classes: of an output.
        samples: of the data.
    """

    name: str
    batch: int
    length: int
    width: int
    classes: int
    samples: int


USUAL = Size("usual", batch=4, length=16, width=32, classes=50, samples=6)
SIZES = (
    USUAL,
    Size("single", batch=1, length=24, width=16, classes=20, samples=12),
    Size("wide", batch=2, length=40, width=48, classes=1000, samples=4),
)
"""Batches, single rows as an edge device sees them, and many classes."""

FLOATS = ("float32", "float64", "float16")


class Trial:
    """What one side of a pair is made from: sizes, a number format, and random numbers that both sides share.

    Args:
        size: of the pair.
        seed: of all random numbers.
        dtype: of the model's floating-point numbers.
    """

    def __init__(self, size: Size, seed: int, dtype: str) -> None:
        self.size, self.seed, self.dtype = size, seed, np.dtype(dtype)
        self.batch, self.length, self.width, self.classes = size.batch, size.length, size.width, size.classes
        self.rng = np.random.default_rng([seed, 1])
        self.faults = np.random.default_rng([seed, 2])

    def weights(self, *shape: int, scale: float = 1.0) -> np.ndarray:
        """Weights whose product with inputs of variance 1 has variance ``scale`` squared."""
        return self.rng.standard_normal(shape) * (scale / np.sqrt(shape[-2] if len(shape) > 1 else 1))

    def other_weights(self, *shape: int, scale: float = 1.0) -> np.ndarray:
        """Weights that have nothing to do with those of :meth:`weights`."""
        return self.faults.standard_normal(shape) * (scale / np.sqrt(shape[-2] if len(shape) > 1 else 1))

    @property
    def lowest(self) -> float:
        """The lowest finite number of the format."""
        return float(np.finfo(self.dtype).min)


Write = Callable[..., None]
"""Writes one side of a pair: ``write(sketch, trial, other)``; ``other`` says whether it is the second model."""


@dataclass(frozen=True, slots=True)
class Generator:
    """Makes pairs of one kind.

    Attributes:
        name: of the function, with its parameters.
        kind: of attack; the name of the file.
        reason: why a user would call the two models different, or the same.
        is_right: whether the models compute the same.
        accepted: verdicts.
        dtypes: number formats that it is tried in, the first one in ``make test``.
        write: one side of a pair.
    """

    name: str
    kind: str
    reason: str
    is_right: bool
    accepted: frozenset[Verdict]
    dtypes: tuple[str, ...]
    write: Write

    def case(self, size: Size = USUAL, seed: int = 0, dtype: str = "") -> Case:
        """A pair."""
        dtype = dtype or self.dtypes[0]
        sketches = []
        for other in (False, True):
            sketch = Sketch(dtype)
            self.write(sketch, Trial(size, seed, dtype), other)
            sketches.append(sketch)
        samples = sketches[0].samples(size.samples, seed)
        name = f"{self.name}-{size.name}-{seed}-{dtype}"
        return Case(name, self, sketches[0].model(), sketches[1].model(), samples)


@dataclass(frozen=True, slots=True)
class Case:
    """A pair of models and the data that they are compared on.

    Attributes:
        name: of the generator, with size, seed and number format.
        generator: that made it.
        reference: the model that counts as right.
        other: the model that is compared with it.
        samples: of the reference's inputs.
    """

    name: str
    generator: Generator
    reference: onnx.ModelProto
    other: onnx.ModelProto
    samples: list[Sample]

    @property
    def accepted(self) -> frozenset[Verdict]:
        """Verdicts that are right."""
        return self.generator.accepted


_GENERATORS: dict[str, Generator] = {}


def generators() -> list[Generator]:
    """All generators, wrong pairs first."""
    import gate.right
    import gate.wrong  # noqa: F401

    return sorted(_GENERATORS.values(), key=lambda one: one.is_right)


def wrong(
    reason: str, *, accepted: frozenset[Verdict] = ONLY_REFUSED, dtypes: tuple[str, ...] = ("float32",), **grid: Any
) -> Callable[[Write], Write]:
    """Register a generator of wrong pairs, one for each combination of the values in ``grid``."""
    return _registers(reason, False, accepted, dtypes, grid)


def right(
    reason: str, *, accepted: frozenset[Verdict] = ONLY_EQUAL, dtypes: tuple[str, ...] = ("float32",), **grid: Any
) -> Callable[[Write], Write]:
    """Register a generator of right pairs, one for each combination of the values in ``grid``."""
    return _registers(reason, True, accepted, dtypes, grid)


def _registers(
    reason: str, is_right: bool, accepted: frozenset[Verdict], dtypes: tuple[str, ...], grid: dict[str, Any]
) -> Callable[[Write], Write]:
    def register(write: Write) -> Write:
        for values in _combinations(grid):
            name = write.__name__ + ("[" + ",".join(map(str, values.values())) + "]" if values else "")
            kind = write.__module__.rpartition(".")[2]
            assert name not in _GENERATORS, name
            bound = partial(write, **values) if values else write
            _GENERATORS[name] = Generator(name, kind, reason, is_right, accepted, dtypes, bound)
        return write

    return register


def _combinations(grid: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for values in product(*grid.values()):
        yield dict(zip(grid, values, strict=True))
