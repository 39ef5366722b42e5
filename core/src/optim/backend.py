"""What can run a model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import ClassVar, Self

from optim.arrays import Feeds, Outputs
from optim.model import Model, SessionConfig
from optim.target import Target


@dataclass(frozen=True, slots=True)
class BackendLimits:
    """The newest formats a backend accepts.

    Attributes:
        ir_version: newest ONNX IR version.
        opset: newest operator set by domain; a domain that is absent is not supported at all.
    """

    ir_version: int
    opset: Mapping[str, int]


class Session(ABC):
    """A model opened for running; a context manager that closes itself."""

    @abstractmethod
    def run(self, feeds: Feeds) -> Outputs:
        """One run; outputs by name, in the model's order."""

    @property
    @abstractmethod
    def executed_on(self) -> Mapping[str, float]:
        """Share of the graph's nodes by provider, 0..1, summing to 1."""

    def close(self) -> None:  # noqa: B027 - most sessions have nothing to release
        """Release what the session holds."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Backend(ABC):
    """A way to run models, contributed by ``optim_backends``. Instantiated without arguments in a worker process."""

    name: ClassVar[str]

    @abstractmethod
    def open(self, model: Model, target: Target) -> Session:
        """A session that really runs on ``target``.

        Raises:
            OptimError[session-failed]: the runtime refused the model.
            OptimError[cpu-fallback]: the runtime would have run it somewhere else.
        """

    def open_reference(self, model: Model, target: Target) -> Session:
        """A session that computes what the model says, in the model's own precision.

        The original is run in it, and what no lossy pass has changed is compared in it. A backend overrides it whose
        target takes less than every model: fixed shapes only, or no floats.
        """
        return self.open(model, target)

    def open_estimate(self, model: Model, target: Target) -> Session:
        """A session that computes about what the target does, and sooner, where opening for the target takes long.

        The repair and ``optim sensitivity`` measure in it; what the repair finds is judged on the target.
        """
        return self.open(model, target)

    @abstractmethod
    def limits(self) -> BackendLimits:
        """The newest IR version and opsets that it accepts, asked of the runtime itself."""

    def equivalent_settings(self, target: Target) -> Sequence[SessionConfig]:
        """Settings that must not change what a model computes; their spread measures the tolerance of ``lossless``."""
        del target
        return ()

    def versions(self) -> Mapping[str, str]:
        """Versions of the libraries it runs with, by distribution; part of every cache key."""
        return {}
