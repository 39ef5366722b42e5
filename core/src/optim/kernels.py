"""What a runtime's kernels are fast at: what a backend offers to be timed, and what a pass exchanges.

Once on each machine, for each backend and its libraries, the kernels that a backend offers are timed beside those of
``float32`` (:meth:`optim.Backend.kernel_probes`); a pass says which of them its result would use
(:meth:`optim.Pass.kernels`). So the search knows what a pass promises before it tried it. Names of precisions are the
plugins' own: core only compares them. A vendor who has neither is guessed by the stage of the pass.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from optim.model import SessionConfig

FLOAT32 = "float32"
"""The precision that others are timed beside."""


@dataclass(frozen=True, slots=True)
class KernelProbe:
    """A kernel to be timed: a model of one operation, in one of the shapes that it is for.

    Attributes:
        operator: what the operation is called in a graph of floats, e.g. ``MatMul``.
        precision: in a word, as :class:`KernelUse` says it; one probe of each shape is :data:`FLOAT32`.
        shape: in a word, e.g. ``128 rows``: probes of one operator and shape are timed against each other.
        model: an ONNX model with fixed shapes; its inputs get random values. One that the runtime refuses is left out.
        session: settings that it is opened with; one thread is timed more steadily than several.
    """

    operator: str
    precision: str
    shape: str
    model: bytes
    session: SessionConfig = field(default_factory=SessionConfig)


@dataclass(frozen=True, slots=True)
class KernelUse:
    """What a pass with some options exchanges: kernels of these operators for those of another precision."""

    operators: tuple[str, ...]
    precision: str


@dataclass(frozen=True, slots=True)
class KernelRatio:
    """How long a kernel takes beside that of float32 on the same work.

    Attributes:
        operator: see :class:`KernelProbe`.
        precision: see there.
        shape: see there; empty for all.
        ratio: of the times; below 1 is faster.
        spread: how far rounds of it were apart, as a share of the ratio; 0 where it was not measured here.
    """

    operator: str
    precision: str
    shape: str
    ratio: float
    spread: float = 0.0
