"""How a decoder keeps tensors between two runs: bound by onnxruntime where it opened the session, else as arrays."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from optim.arrays import Array
from optim.engine.goals import OwnSession
from optim_plugins.adapted.tensor_memory import TensorMemory

if TYPE_CHECKING:
    import onnxruntime

AnySession: TypeAlias = "onnxruntime.InferenceSession | OwnSession"
"""What opens a graph: both have ``run``, ``get_inputs`` and ``get_outputs``."""


class Tensors(Protocol):
    """What one session is fed and gives; a tensor of it is what ``put`` and ``run`` return."""

    def put(self, tensor: Any) -> Any:
        """An array, or a tensor of another session, as one of this."""

    def run(self, given: Mapping[str, Any], wanted_here: Collection[str] = ()) -> dict[str, Any]:
        """One run.

        Args:
            given: tensors by name: all inputs.
            wanted_here: outputs that are brought to the memory of the machine.
        """


def tensors_of(session: AnySession) -> Tensors:
    """How a session's tensors are kept."""
    return OwnTensors(session) if isinstance(session, OwnSession) else BoundTensors(session)


def as_array(tensor: Any) -> Array:
    """A tensor of any session in the memory of the machine."""
    return tensor if isinstance(tensor, np.ndarray) else np.asarray(tensor.numpy())


class BoundTensors:
    """Of onnxruntime, on the device of the session: what stays there is not copied."""

    def __init__(self, session: onnxruntime.InferenceSession) -> None:
        self._session = session
        self._memory = TensorMemory.of(session)
        self._names = [value.name for value in session.get_outputs()]

    def put(self, tensor: Any) -> Any:
        """An array is copied to the device, where that has memory of its own; one of onnxruntime's stays."""
        return self._memory.put(tensor) if isinstance(tensor, np.ndarray) else tensor

    def run(self, given: Mapping[str, Any], wanted_here: Collection[str] = ()) -> dict[str, Any]:
        """One run without copies of what stays on the device."""
        binding = self._session.io_binding()
        for name, value in given.items():
            binding.bind_ortvalue_input(name, value)
        for name in self._names:
            place = TensorMemory() if name in wanted_here else self._memory
            binding.bind_output(name, place.kind, place.index)
        self._session.run_with_iobinding(binding)
        return dict(zip(self._names, binding.get_outputs(), strict=True))


class OwnTensors:
    """Of a runtime of its own: arrays, which each run leaves alone."""

    def __init__(self, session: OwnSession) -> None:
        self._session = session

    def put(self, tensor: Any) -> Any:
        """The array itself."""
        return as_array(tensor)

    def run(self, given: Mapping[str, Any], wanted_here: Collection[str] = ()) -> dict[str, Any]:
        """One run."""
        names = [value.name for value in self._session.get_outputs()]
        return dict(zip(names, self._session.run(names, given), strict=True))
