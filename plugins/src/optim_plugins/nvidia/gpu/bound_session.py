"""A session whose inputs and outputs stay on the device while it is timed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from optim import ExitStatus, OptimError
from optim.arrays import Feeds, Outputs
from optim.onnx import OnnxRuntimeSession

if TYPE_CHECKING:
    import onnxruntime

_FULL = ("out of memory", "Failed to allocate memory", "CUDNN_STATUS_ALLOC_FAILED", "CUBLAS_STATUS_ALLOC_FAILED")


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """Where inputs and outputs lie.

    Attributes:
        kind: ``cuda``, or ``cpu`` where a test has no other.
        index: of the device.
        used_bytes: tells the memory in use there; None where nobody can.
        used_before: before the model was opened.
    """

    kind: str = "cuda"
    index: int = 0
    used_bytes: Callable[[], int | None] = lambda: None
    used_before: int | None = None


@contextmanager
def naming_full_memory() -> Iterator[None]:
    """Opening a model, or a run of it.

    Raises:
        OptimError[device-memory]: the device has too little memory.
    """
    from optim.onnx import plain_message

    try:
        yield
    except Exception as error:
        said = f"{error.__cause__ or error}"  # a refusal to open says it in its own words, and keeps the runtime's
        if not any(text in said for text in _FULL):
            raise
        raise OptimError(
            "device-memory",
            "the GPU has too little memory for this model and these inputs",
            plain_message(" ".join(said.split()))[:300],
            "give --data with a smaller batch, or end other programs on the GPU (nvidia-smi lists them)",
            "optim-plugins",
            ExitStatus.NOT_HELD,
        ) from error


class BoundSession(OnnxRuntimeSession):
    """Inputs are copied to the device once, and outputs back only where they are asked for.

    With a CUDA graph (``enable_cuda_graph``) every run uses the buffers of the first: a graph that was captured reads
    and writes these addresses, whatever a later run is given.

    Args:
        session: opened with the record of its assignment.
        provider: that takes its nodes.
        memory: of the device.
        copies_timed: whether copies to the device and back are part of a run's time.
        replayed: whether a CUDA graph is captured.
    """

    def __init__(
        self,
        session: onnxruntime.InferenceSession,
        provider: str,
        memory: DeviceMemory,
        *,
        copies_timed: bool = False,
        replayed: bool = False,
    ) -> None:
        super().__init__(session, provider, recorded=True)
        self._memory, self._copies_timed, self._replayed = memory, copies_timed, replayed
        self._buffers: dict[str, Any] = {}

    def run(self, feeds: Feeds) -> Outputs:
        """One run, with copies both ways."""
        binding = self._bound(feeds)
        self._computed(binding)
        arrays = binding.copy_outputs_to_cpu()
        return dict(zip(self._names, arrays, strict=True))

    def time_runs(self, feeds: Feeds, count: int) -> list[float]:
        """Seconds of each run until the device is done; without copies, unless they were asked for."""
        if self._copies_timed:
            return super().time_runs(feeds, count)
        binding, times = self._bound(feeds), []
        for _ in range(count):
            started = time.perf_counter()
            self._computed(binding)
            times.append(time.perf_counter() - started)
        return times

    def peak_memory_bytes(self) -> int | None:
        """Memory of the device taken since the model was opened; of all programs, as the driver tells no more."""
        used, before = self._memory.used_bytes(), self._memory.used_before
        return None if used is None or before is None else max(0, used - before)

    def close(self) -> None:
        """Let go of the session and of what lies on the device."""
        self._buffers.clear()
        super().close()

    def _computed(self, binding: Any) -> None:
        """Run, and wait for the device.

        Raises:
            OptimError[device-memory]: the device has too little memory.
        """
        with naming_full_memory():
            self._session.run_with_iobinding(binding)
            binding.synchronize_outputs()

    def _bound(self, feeds: Mapping[str, Any]) -> Any:
        """Inputs on the device, and outputs that are left there.

        Raises:
            OptimError[device-memory]: the device has too little memory for the inputs.
        """
        import numpy as np
        import onnxruntime

        binding = self._session.io_binding()
        with naming_full_memory():
            for name in sorted(self._inputs & feeds.keys()):  # others have a default
                array = np.ascontiguousarray(feeds[name])
                kept = self._buffers.get(name) if self._replayed else None
                if kept is not None and tuple(kept.shape()) == array.shape:
                    kept.update_inplace(array)
                else:
                    kept = onnxruntime.OrtValue.ortvalue_from_numpy(array, self._memory.kind, self._memory.index)
                    self._buffers[name] = kept
                binding.bind_ortvalue_input(name, kept)
            for output in self._session.get_outputs():
                self._bind_output(binding, output)
            binding.synchronize_inputs()
        return binding

    def _bind_output(self, binding: Any, output: Any) -> None:
        """A buffer of its own where a graph is replayed into it; else wherever the runtime puts it."""
        if not self._replayed:
            binding.bind_output(output.name, self._memory.kind, self._memory.index)
            return
        if output.name not in self._buffers:
            import onnxruntime

            self._buffers[output.name] = onnxruntime.OrtValue.ortvalue_from_shape_and_type(
                output.shape, _NUMPY[output.type], self._memory.kind, self._memory.index
            )
        binding.bind_ortvalue_output(output.name, self._buffers[output.name])


_NUMPY = {
    "tensor(float)": "float32",
    "tensor(float16)": "float16",
    "tensor(double)": "float64",
    "tensor(int64)": "int64",
    "tensor(int32)": "int32",
    "tensor(int8)": "int8",
    "tensor(uint8)": "uint8",
    "tensor(bool)": "bool",
}
"""What outputs of fixed shapes can be, where a CUDA graph writes into them."""
