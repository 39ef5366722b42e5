"""How a model begins: opening it, its first call, and what a greater input costs once; and what a lane has by then.

A runtime takes memory and chooses kernels in the first run, and again at each new greatest size.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from optim._engine.gate.budget import TaskFigure
from optim._engine.gate.drift import BatchDrift, OutputComparison
from optim.arrays import Array, Feeds
from optim.backend import KernelCount, Session

_NOTICED_S = 0.05
"""A first call that takes longer than others by less is not worth a call of its own: people notice 0.1 s."""

_WARMED_TYPES = frozenset(
    {"bool", "float16", "float32", "float64"} | {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
)
"""Types that numpy itself can make zeros of; texts and bfloat16 are none."""

_WARMED_ELEMENTS = 1 << 28
"""An input of a warm-up has at most so many: 1 GiB of floats. A ``session.json`` may come from a stranger."""


@dataclass(frozen=True, slots=True)
class Zeros:
    """An input of zeros."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def is_allowed(self) -> bool:
        """Whether a session file may have it."""
        sizes = all(size >= 0 for size in self.shape) and math.prod(self.shape) <= _WARMED_ELEMENTS
        return sizes and self.dtype in _WARMED_TYPES

    def array(self) -> Array:
        """The zeros."""
        import numpy as np

        return np.zeros(self.shape, self.dtype)


@dataclass(frozen=True, slots=True)
class StartUp:
    """What comes before a model is as fast as it gets.

    Attributes:
        open_s: seconds until it was open; imports of the runtime excluded.
        open_memory_bytes: peak memory while it was opened, above what the process had after its imports.
        first_s: the first run of each timed sample, in their order, in seconds.
        warm_up: inputs of zeros in the shapes of the largest sample; one run on them when the model is opened takes
            from callers what first runs cost more. Empty where that is too little, or where the model refuses zeros.
    """

    open_s: float
    open_memory_bytes: int
    first_s: tuple[float, ...]
    warm_up: Mapping[str, Zeros]


@dataclass(frozen=True, slots=True)
class Ready:
    """What a lane says before the race.

    Attributes:
        comparisons: with the original, empty where none was asked for.
        peak_memory_bytes: of opening and running the model, above what the process had after its imports.
        start: how it began; other models may have been opened beside it.
        batch: how far its answers move in a batch and with padding, where that was asked for.
        kernels: that compute it, where the runtime tells.
        unseen: comparisons on samples of other sizes than those given, made with :attr:`batch`.
    """

    comparisons: tuple[OutputComparison, ...]
    peak_memory_bytes: int
    executed_on: dict[str, float]
    run_s: tuple[float, ...]
    task: TaskFigure | None = None
    start: StartUp | None = None
    batch: BatchDrift | None = None
    kernels: tuple[KernelCount, ...] = ()
    unseen: tuple[OutputComparison, ...] = ()


def warm_up_of(
    session: Session, samples: Sequence[Feeds], first_s: Sequence[float], run_s: Sequence[float]
) -> dict[str, Zeros]:
    """Inputs of a warm-up, where one pays: first runs cost more than a later one of the largest, and are noticed."""
    if not samples:
        return {}
    more_s = sum(first - later for first, later in zip(first_s, run_s, strict=True))
    place = max(range(len(samples)), key=lambda index: sum(array.size for array in samples[index].values()))
    if more_s < max(_NOTICED_S, run_s[place]):
        return {}
    found = {name: Zeros(array.dtype.name, array.shape) for name, array in samples[place].items()}
    if not all(one.is_allowed for one in found.values()):
        return {}
    try:
        session.run({name: one.array() for name, one in found.items()})
    except Exception:  # whatever it says of zeros, it cannot be warmed up with them
        return {}
    return found


def timed_run(session: Session, feeds: Feeds) -> float:
    """Seconds of one run."""
    started = time.perf_counter()
    session.run(feeds)
    return time.perf_counter() - started
