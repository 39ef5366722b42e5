"""A model opened by the backend of its target, with the methods of an ``onnxruntime.InferenceSession``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from optim._engine.backends.held import HeldSession, held_backend
from optim._engine.plugins.registry import load_registry, require_target
from optim.arrays import Array, Feeds
from optim.backend import Session
from optim.errors import ExitStatus, OptimError
from optim.model import Dimension, Model, SessionConfig, TensorInfo


@dataclass(frozen=True, slots=True)
class Value:
    """An input or output, described as onnxruntime does: ``name``, ``type`` (``tensor(float)``) and ``shape``."""

    name: str
    type: str
    shape: tuple[Dimension, ...]


def bindable(held: Session, model: Model) -> Any:
    """The runtime's own session, where memory can be bound to it; else one that is fed arrays."""
    own = held.onnxruntime_session() if isinstance(held, HeldSession) else None
    return own or OwnSession(held, model)


@dataclass(eq=False)
class OwnSession:
    """What :func:`optim.load` returns for a target whose runtime is not onnxruntime; a context manager."""

    session: Session
    model: Model

    def run(self, output_names: Sequence[str] | None, feeds: Feeds) -> list[Array]:
        """One run; without names it returns all outputs, in the model's order."""
        found = self.session.run(feeds)
        names = [info.name for info in self.model.outputs] if output_names is None else output_names
        return [found[name] for name in names]

    def get_inputs(self) -> list[Value]:
        """Returns what a run must be fed."""
        return [_value(info) for info in self.model.inputs]

    def get_outputs(self) -> list[Value]:
        """Returns what a run returns."""
        return [_value(info) for info in self.model.outputs]

    def close(self) -> None:
        """Release what the runtime holds."""
        self.session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_own(path: Path, name: str, package: str, settings: SessionConfig) -> OwnSession:
    """Open a graph by the backend of its target.

    Raises:
        OptimError[runtime-missing]: no plugin here brings the target.
        OptimError[target-unavailable]: it cannot be used here.
        OptimError: what the backend says.
    """
    from optim.onnx.files import describe_model

    registry = load_registry()
    try:
        target = require_target(registry, name)
        backend = held_backend(registry, target.backend)
    except OptimError as error:
        raise runtime_missing(path, name, package, error) from error
    model = describe_model(path, session=settings)
    return OwnSession(backend.open(model, target.plain), model)


def runtime_missing(path: Path, name: str, package: str, error: OptimError) -> OptimError:
    """What is told of a graph whose target no plugin here brings; an error about anything else as it is."""
    if error.reference not in ("unknown-target", "unknown-backend", "plugin-failed"):
        return error
    return OptimError(
        "runtime-missing",
        f"{path} runs on target {name} only, which is not here",
        f"{error.what}: {error.cause}",
        f"install {package}, which brings it: docs/install.md" if package else "install the plugin that brings it",
        package,
        ExitStatus.TARGET_UNAVAILABLE,
    )


_TYPES = {"float32": "float", "float64": "double"}


def _value(info: TensorInfo) -> Value:
    return Value(info.name, f"tensor({_TYPES.get(info.dtype, info.dtype)})", info.shape or ())
