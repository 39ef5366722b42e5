"""Where tensors of a session lie: in the memory of the machine, or of its GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from optim.providers import CUDA, TENSORRT

if TYPE_CHECKING:
    import onnxruntime

    from optim.arrays import Array

_KINDS = {CUDA: "cuda", TENSORRT: "cuda"}
"""What ONNX Runtime calls the memory of a provider; of all others it is that of the machine."""


@dataclass(frozen=True, slots=True)
class TensorMemory:
    """Memory that ONNX Runtime binds inputs and outputs to.

    Attributes:
        kind: ``cpu`` or ``cuda``.
        index: of the device.
    """

    kind: str = "cpu"
    index: int = 0

    @classmethod
    def of(cls, session: onnxruntime.InferenceSession) -> TensorMemory:
        """Where the first provider of a session computes."""
        provider = session.get_providers()[0]
        options = session.get_provider_options().get(provider, {})
        return cls(_KINDS.get(provider, "cpu"), int(options.get("device_id", 0)) if provider in _KINDS else 0)

    def put(self, array: Array) -> onnxruntime.OrtValue:
        """A copy of an array there; in the memory of the machine the array itself."""
        import numpy as np
        import onnxruntime

        return onnxruntime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array), self.kind, self.index)
